//! A server's answer as text.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// What the model reads of an answer: its texts, and the names of what is not text.
pub(super) fn text(result: &CallToolResult) -> String {
    if let ([], Some(structured)) = (result.content.as_slice(), &result.structured_content) {
        return structured.to_string();
    }
    if result.content.is_empty() {
        return "[nothing]".to_owned();
    }
    result.content.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image, {} bytes]", decoded(&image.data)),
        ContentBlock::Audio(audio) => format!("[audio, {} bytes]", decoded(&audio.data)),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {}]\n{text}", short(uri)),
            ResourceContents::BlobResourceContents { uri, blob, .. } => {
                format!("[resource {}, {} bytes]", short(uri), decoded(blob))
            }
            _ => "[resource]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[link to resource {}]", short(&link.uri)),
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn short(uri: &str) -> String {
    herm::text::line(uri, 300)
}

/// How many bytes a Base64 text stands for.
fn decoded(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(value: serde_json::Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn texts_are_joined_and_the_rest_is_named() {
        let answer = result(serde_json::json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "data": "AAECAw==", "mimeType": "image/png" },
            { "type": "audio", "data": "AAEC", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "two" } },
            { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAE=" } },
            { "type": "resource_link", "uri": "file:///c", "name": "c" },
        ]}));
        let expected = "one\n[image, 4 bytes]\n[audio, 3 bytes]\n[resource file:///a]\ntwo\n\
                        [resource file:///b, 2 bytes]\n[link to resource file:///c]";
        assert_eq!(text(&answer), expected);
    }

    #[test]
    fn an_answer_without_content_says_what_it_has() {
        let structured = serde_json::json!({ "content": [], "structuredContent": { "sum": 3 } });
        assert_eq!(text(&result(structured)), r#"{"sum":3}"#);
        assert_eq!(text(&result(serde_json::json!({ "content": [] }))), "[nothing]");
    }
}
