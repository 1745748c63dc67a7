//! The shape of Solidity: contracts and what they declare.
//!
//! One pass over the characters. Comments and strings are skipped, so that code which was commented
//! out is not listed; a statement is what stands between `;`, `{` and `}`.

use crate::fit;
use crate::outline::Shape;

/// How much of a statement is remembered.
const STATEMENT_CHARS: usize = 400;

const CONTAINERS: [&str; 4] = ["contract", "interface", "library", "abstract"];

/// Whether a line can only be Solidity.
pub(crate) fn is_solidity(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let (first, second, third) = (words.next(), words.next(), words.next());
    match (first, second) {
        (Some("pragma"), Some("solidity")) => true,
        (Some("abstract"), Some("contract")) => line.contains('{'),
        // `interface X {` is TypeScript and Java too; `contract X {` is not.
        (Some("contract"), Some(name)) => {
            let named = name.trim_end_matches('{').chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
            named && (name.ends_with('{') || matches!(third, Some("{" | "is" | "{}")))
        }
        _ => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Container,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    LineComment,
    BlockComment,
    Text(char),
}

/// The contracts of a text, and their functions, modifiers, types and state.
pub(crate) fn shape(text: &str) -> Shape {
    let mut walk = Walk::default();
    let mut inside = Inside::Code;
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match inside {
            Inside::Code => match c {
                '/' if chars.peek() == Some(&'/') => inside = Inside::LineComment,
                '/' if chars.peek() == Some(&'*') => {
                    chars.next();
                    inside = Inside::BlockComment;
                }
                '"' | '\'' => {
                    walk.push(c, line);
                    inside = Inside::Text(c);
                }
                _ => walk.code(c, line),
            },
            Inside::LineComment if c == '\n' => inside = Inside::Code,
            Inside::BlockComment if c == '*' && chars.peek() == Some(&'/') => {
                chars.next();
                inside = Inside::Code;
            }
            Inside::Text(_) if c == '\\' => {
                if chars.next() == Some('\n') {
                    line += 1;
                }
            }
            // A string ends with its line, closed or not.
            Inside::Text(quote) if c == quote || c == '\n' => {
                walk.push(quote, line);
                inside = Inside::Code;
            }
            Inside::Text(_) => walk.push(c, line),
            Inside::LineComment | Inside::BlockComment => {}
        }
        if c == '\n' {
            walk.push(' ', line);
            line += 1;
        }
    }
    walk.finish()
}

#[derive(Debug, Default)]
struct Counts {
    contracts: usize,
    functions: usize,
    modifiers: usize,
    state: usize,
    events: usize,
    errors: usize,
}

#[derive(Debug, Default)]
struct Walk {
    shape: Shape,
    counts: Counts,
    blocks: Vec<Block>,
    /// Open parentheses of the statement: braces inside them are values.
    open: usize,
    statement: String,
    length: usize,
    begun: usize,
}

impl Walk {
    fn push(&mut self, c: char, line: usize) {
        if self.statement.is_empty() {
            if c.is_whitespace() {
                return;
            }
            self.begun = line;
        }
        if self.length < STATEMENT_CHARS && !(c.is_whitespace() && self.statement.ends_with(' ')) {
            self.statement.push(if c.is_whitespace() { ' ' } else { c });
            self.length += 1;
        }
    }

    fn code(&mut self, c: char, line: usize) {
        match c {
            '(' | '[' => self.open += 1,
            ')' | ']' => self.open = self.open.saturating_sub(1),
            '{' if self.open == 0 => return self.block(),
            '}' if self.open == 0 => {
                self.blocks.pop();
                return self.clear();
            }
            ';' => return self.semicolon(),
            _ => {}
        }
        self.push(c, line);
    }

    fn clear(&mut self) {
        self.statement.clear();
        self.length = 0;
        self.open = 0;
    }

    fn declares(&self) -> bool {
        self.blocks.iter().all(|block| *block == Block::Container)
    }

    fn add(&mut self, text: &str) {
        self.shape.entries.add(self.begun, self.blocks.len(), text);
    }

    fn block(&mut self) {
        let statement = std::mem::take(&mut self.statement);
        let word = first_word(&statement);
        let mut block = Block::Other;
        if self.declares() {
            if CONTAINERS.contains(&word) && self.blocks.is_empty() {
                block = Block::Container;
                self.counts.contracts += 1;
                self.add(&statement);
            } else {
                self.member(&statement, word);
            }
        }
        self.blocks.push(block);
        self.clear();
    }

    fn semicolon(&mut self) {
        let statement = std::mem::take(&mut self.statement);
        let word = first_word(&statement);
        if self.declares() {
            match word {
                "" => {}
                "event" => self.counts.events += 1,
                "error" => self.counts.errors += 1,
                "pragma" | "import" | "using" | "type" => self.add(&statement),
                "function" | "modifier" | "constructor" => self.member(&statement, word),
                _ if self.blocks.is_empty() => {}
                _ => {
                    self.counts.state += 1;
                    self.add(&format!("state {statement}"));
                }
            }
        }
        self.clear();
    }

    fn member(&mut self, statement: &str, word: &str) {
        match word {
            "function" | "constructor" | "receive" | "fallback" => self.counts.functions += 1,
            "modifier" => self.counts.modifiers += 1,
            "struct" | "enum" => {}
            _ => return,
        }
        self.add(statement);
    }

    fn finish(mut self) -> Shape {
        let Counts { contracts, functions, modifiers, state, events, errors } = self.counts;
        self.shape.facts.push(format!(
            "{}, {}, {}, {}, {}, {}",
            fit::count(contracts, "contract"),
            fit::count(functions, "function"),
            fit::count(modifiers, "modifier"),
            fit::count(state, "state variable"),
            fit::count(events, "event"),
            fit::count(errors, "error"),
        ));
        self.shape
    }
}

fn first_word(statement: &str) -> &str {
    let end = statement.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(statement.len());
    statement.split_at(end).0
}

#[cfg(test)]
mod tests {
    use crate::outline::outline;

    #[test]
    fn contracts_with_their_members_are_listed() {
        let source = r#"// SPDX
pragma solidity 0.8.24;
interface IERC20 { function transfer(address to, uint256 amount) external returns (bool); }
/* contract Dead { function gone() public {} } */
contract Vault is Ownable {
    error Bad();
    event Paid(uint256 amount);
    enum State { Empty, Full }
    mapping(address => uint256) public credit; // function no() public {}
    string name = "a; function b() {";
    Config config = Config({ fee: 1 });
    modifier onlyKeeper() {
        require(msg.sender == keeper, "it's { no");
        _;
    }
    constructor(address a) { owner = a; }
    function swap(
        uint256 amountIn,
        address to
    ) external onlyKeeper returns (uint256) {
        (bool ok, ) = to.call{value: amountIn}("");
        for (uint i = 0; i < 2; i++) { uint256 x = i; }
        return 1;
    }
    receive() external payable {}
}
"#;
        let expected = "\
27 lines, 941 characters; Solidity.
2 contracts, 4 functions, 1 modifier, 3 state variables, 1 event, 1 error
L2 pragma solidity 0.8.24
L3 interface IERC20
L3   function transfer(address to, uint256 amount) external returns (bool)
L5 contract Vault is Ownable
L8   enum State
L9   state mapping(address => uint256) public credit
L10   state string name = \"a; function b() {\"
L11   state Config config = Config({ fee: 1 })
L12   modifier onlyKeeper()
L16   constructor(address a)
L17   function swap( uint256 amountIn, address to ) external onlyKeeper returns (uint256)
L25   receive() external payable
";
        let shown = outline(source).text;
        let (_, rest) = shown.split_once('\n').unwrap();
        assert_eq!(rest, expected.split_once('\n').unwrap().1);
    }
}
