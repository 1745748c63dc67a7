//! A model without weights that does what it is shown: for measuring learning where no model is.
//!
//! It answers tasks of one kind, "Where is the lamp?", with the tool `find_thing`, which takes a thing and a list. Which
//! list is right it takes from the question, from an example in the prompt, or from a skill there ("the list cellar");
//! where nothing says so, it tries the first list again and again.

use serde_json::{Value, json};

use crate::model_server::{ModelServer, Request, Step};

/// The list it tries where nothing is shown.
pub const FIRST_LIST: &str = "attic";

/// An endpoint that speaks as OpenAI's do, and imitates.
pub fn serve() -> ModelServer {
    ModelServer::answering(|request| match request.body["stream"] == true {
        false => Step::chat(&reply(request)),
        true => {
            let piece = json!({ "model": "imitator-1", "choices": [{ "delta": { "content": reply(request) } }] });
            let end = json!({ "model": "imitator-1", "choices": [{ "delta": {}, "finish_reason": "stop" }] });
            Step::sse([piece.to_string(), end.to_string(), "[DONE]".to_owned()])
        }
    })
}

fn reply(request: &Request) -> String {
    let messages: Vec<&str> =
        request.body["messages"].as_array().into_iter().flatten().filter_map(|said| said["content"].as_str()).collect();
    let last = messages.last().copied().unwrap_or_default();
    if let Some(place) = last.split_once("is in ").map(|(_, place)| place) {
        let place = place.split(['.', '\n']).next().unwrap_or_default();
        return json!({ "answer": place }).to_string();
    }
    // The question is the first message of the user, or the end of it.
    let asked = messages.get(1).and_then(|said| said.rfind("Where is the ").and_then(|at| said.get(at..)));
    let Some(asked) = asked.filter(|_| !last.contains("skill")) else {
        return json!({ "answer": "nothing to add" }).to_string();
    };
    let words: Vec<&str> = asked.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let thing = words.get(3).copied().unwrap_or_default();
    let named = asked.split_once("on the list ").and_then(|(_, rest)| first_word(rest));
    let shown = messages.iter().take(2).find_map(|said| list_shown(said));
    let list = named.or(shown).unwrap_or_else(|| FIRST_LIST.to_owned());
    json!({ "tool": "find_thing", "args": { "thing": thing, "list": list } }).to_string()
}

fn first_word(text: &str) -> Option<String> {
    text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).map(str::to_owned)
}

/// The list of an example in the prompt, or of a skill there.
fn list_shown(said: &str) -> Option<String> {
    let calls = said.lines().filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
    let example = calls.filter_map(|call| call["args"]["list"].as_str().map(str::to_owned)).next_back();
    example.or_else(|| said.split_once("the list ").and_then(|(_, rest)| first_word(rest)))
}
