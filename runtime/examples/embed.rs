//! herm in your own tokio program: `cargo run -p herm --example embed -- BRAINS ID "what to do"`

use herm::{Harness, Result, Task};

async fn ask(brains: &str, id: &str, input: &str) -> Result<Option<String>> {
    let harness = Harness::builder().brains(brains).build()?;
    let outcome = harness.run(&id.parse()?, Task::new(input)).await?;
    harness.shutdown().await?;
    Ok(outcome.answer)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brains, id, input] = arguments.as_slice() else {
        return Err(herm::Error::invalid("name a directory of brains, an agent and what it should do"));
    };
    let answer = ask(brains, id, input).await?;
    #[expect(clippy::print_stdout, reason = "an example shows its result")]
    {
        println!("{}", answer.unwrap_or_else(|| "no answer".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn it_answers() {
    use herm::{Brain, BrainOptions, BrainSource, Seed};
    let dir = tempfile::tempdir().unwrap();
    let id = "7".parse().unwrap();
    let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
    let layout = herm::Layout::new(dir.path());
    Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &BrainOptions::default()).unwrap().0.close().unwrap();
    let answer = ask(dir.path().to_str().unwrap(), "7", "hello").await.unwrap().unwrap();
    assert!(answer.contains("No language model spoke"), "{answer}");
}
