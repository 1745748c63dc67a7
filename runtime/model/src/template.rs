//! A conversation in the words of a model's own chat template.
//!
//! What people, tools and the model say is put in after the template was rendered, so that nothing in a
//! message can pass for a mark of the frame.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};

use crate::Message;
use crate::error::{ModelError, Result};
use crate::file::ModelFile;
use crate::vocabulary::Vocabulary;

/// The template of files that bring none.
const USUAL: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + \
                     '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}";
/// Steps a template may take: a file may hold any.
const FUEL: u64 = 1_000_000;
/// Bytes of a frame, without what is said in it.
const MOST_FRAME: usize = 1 << 18;
/// Letters of no language, around the number of a message.
const OPEN: char = '\u{E000}';
const CLOSE: char = '\u{E001}';

/// A chat template, ready to be used.
#[derive(Debug)]
pub(crate) struct Template {
    environment: Environment<'static>,
    begin: String,
    end: String,
}

impl Template {
    /// The one in a model's file.
    pub(crate) fn read(file: &ModelFile, vocabulary: &Vocabulary) -> Result<Self> {
        let source = file.text("tokenizer.chat_template").unwrap_or(USUAL).to_owned();
        let begin = file.number("tokenizer.ggml.bos_token_id").and_then(|id| u32::try_from(id).ok());
        let end = vocabulary.ends().first().map(|end| vocabulary.name(*end)).unwrap_or_default();
        let begin = begin.map(|begin| vocabulary.name(begin)).unwrap_or_default();
        Self::of(source, begin, end).map_err(|source| {
            ModelError::invalid(format!("the chat template of {} cannot be used: {source}", file.path().display()))
                .hint("use another file of this model")
        })
    }

    fn of(source: String, begin: String, end: String) -> std::result::Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_fuel(Some(FUEL));
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |why: String| -> std::result::Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
        });
        environment.add_template_owned("chat", source)?;
        Ok(Self { environment, begin, end })
    }

    fn render(&self, roles: &[&str]) -> std::result::Result<String, minijinja::Error> {
        let messages: Vec<_> = roles
            .iter()
            .enumerate()
            .map(|(at, role)| context! { role => *role, content => format!("{OPEN}{at}{CLOSE}") })
            .collect();
        let mut frame = Frame(Vec::new());
        self.environment.get_template("chat")?.render_captured_to(
            context! {
                messages => messages,
                add_generation_prompt => true,
                enable_thinking => false,
                bos_token => self.begin.as_str(),
                eos_token => self.end.as_str(),
            },
            &mut frame,
        )?;
        Ok(String::from_utf8_lossy(&frame.0).into_owned())
    }

    /// The tokens of a conversation, up to where the model speaks next.
    pub(crate) fn tokens(&self, messages: &[Message<'_>], vocabulary: &Vocabulary) -> Result<Vec<u32>> {
        let roles: Vec<&str> = messages.iter().map(|(role, _)| *role).collect();
        let mut said: Vec<String> = messages.iter().map(|(_, said)| (*said).to_owned()).collect();
        let rendered = self.render(&roles).or_else(|error| match roles.split_first() {
            // Some templates know no system: the first message then carries what it says.
            Some((&"system", rest)) if !rest.is_empty() => {
                let system = said.remove(0);
                if let Some(first) = said.first_mut() {
                    *first = format!("{system}\n\n{first}");
                }
                self.render(rest)
            }
            _ => Err(error),
        });
        let rendered =
            rendered.map_err(|error| ModelError::invalid(format!("the model's chat template refuses: {error}")))?;
        let mut tokens = Vec::new();
        for (at, part) in rendered.split(OPEN).enumerate() {
            let frame = match at {
                0 => part,
                _ => {
                    let (number, frame) = part.split_once(CLOSE).unwrap_or(("", part));
                    let said = number.parse::<usize>().ok().and_then(|number| said.get(number));
                    vocabulary.cut_behind(said.map(String::as_str).unwrap_or_default(), &mut tokens);
                    frame
                }
            };
            vocabulary.cut_frame(frame, &mut tokens);
        }
        if let Some(begin) = vocabulary.begin()
            && tokens.first() != Some(&begin)
        {
            tokens.insert(0, begin);
        }
        Ok(tokens)
    }
}

/// What a template writes, up to a bound.
struct Frame(Vec<u8>);

impl io::Write for Frame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_FRAME {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it writes without end"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str, roles: &[&str]) -> std::result::Result<String, minijinja::Error> {
        Template::of(source.to_owned(), "<s>".to_owned(), "</s>".to_owned())?.render(roles)
    }

    #[test]
    fn templates_as_makers_write_them_are_understood() {
        let usual = rendered(USUAL, &["system", "user"]).unwrap();
        assert_eq!(
            usual,
            "<|im_start|>system\n\u{E000}0\u{E001}<|im_end|>\n<|im_start|>user\n\u{E000}1\u{E001}<|im_end|>\n<|im_start|>assistant\n"
        );
        let mistral = "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}\
                       {{ raise_exception('roles must alternate') }}{% endif %}{% if m['role'] == 'user' %}\
                       {{ '[INST] ' + m['content'].strip() + ' [/INST]' }}{% else %}{{ m['content'] + eos_token }}\
                       {% endif %}{% endfor %}";
        assert!(rendered(mistral, &["system", "user"]).is_err());
        assert_eq!(
            rendered(mistral, &["user", "assistant", "user"]).unwrap(),
            "<s>[INST] \u{E000}0\u{E001} [/INST]\u{E000}1\u{E001}</s>[INST] \u{E000}2\u{E001} [/INST]"
        );
    }

    #[test]
    fn a_template_that_never_ends_is_stopped() {
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        assert!(rendered(endless, &["user"]).is_err());
    }
}
