//! Deterministic data of any size: a tree of skills and a corpus of messages.

use std::path::Path;

/// splitmix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n as u64) as usize
    }

    /// A number below `n`, small ones far more often (like words of a language).
    fn skewed(&mut self, n: usize) -> usize {
        let u = u128::from(self.number() & 0xFFFF);
        ((n as u128 * u * u * u * u) >> 64) as usize
    }
}

fn vocabulary(n: usize, seed: u64) -> Vec<String> {
    const CONSONANTS: &[u8] = b"bcdfghjklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    let mut random = Random::new(seed);
    let mut words = Vec::with_capacity(n);
    let mut seen = std::collections::HashSet::new();
    while words.len() < n {
        let mut word = String::new();
        for _ in 0..2 + random.below(3) {
            word.push(CONSONANTS[random.below(CONSONANTS.len())] as char);
            word.push(VOWELS[random.below(VOWELS.len())] as char);
        }
        if seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

fn sentence(random: &mut Random, words: &[String], count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        let word = &words[random.skewed(words.len())];
        if at == 0 {
            text.push(word.as_bytes()[0].to_ascii_uppercase() as char);
            text.push_str(&word[1..]);
        } else {
            text.push(' ');
            text.push_str(word);
        }
    }
    text.push('.');
    text
}

const CATEGORIES: [&str; 20] = [
    "devops",
    "research",
    "mlops",
    "writing",
    "finance",
    "security",
    "database",
    "frontend",
    "backend",
    "testing",
    "media",
    "mail",
    "planning",
    "cloud",
    "data-science",
    "mobile",
    "embedded",
    "networking",
    "observability",
    "productivity",
];

/// A tree of `count` skills as `(path, content)`: `<category>/<name>/SKILL.md` and support files.
/// One in twenty is for macOS, one in fifty has broken YAML, one in four nested metadata.
pub fn skills(count: usize) -> Vec<(String, String)> {
    let words = vocabulary(3000, 7);
    let mut random = Random::new(42);
    let mut files = Vec::new();
    let mut last_name = None;
    for i in 0..count {
        let first = random.below(words.len());
        let second = random.below(words.len());
        let name = format!("{}-{}-{i:05}", words[first], words[second]);
        let dir = format!("{}/{name}", CATEGORIES[random.below(CATEGORIES.len())]);
        let length = 10 + random.below(14);
        let description = sentence(&mut random, &words, length);
        let mut text = format!("---\nname: {name}\ndescription: \"{description}\"\nversion: 1.0.0\n");
        if i % 20 == 7 {
            text.push_str("platforms: [macos]\n");
        }
        if i % 4 == 0 {
            let tags = (random.below(3000), random.below(3000));
            let related = last_name.as_ref().unwrap_or(&name);
            text.push_str(&format!(
                "metadata:\n  hermes:\n    tags: [{}, {}]\n    related_skills: [{related}]\n",
                words[tags.0], words[tags.1]
            ));
        }
        if i % 50 == 3 {
            text.push_str("broken: [unclosed, \"list\n");
        }
        text.push_str(&format!("---\n\n# {name}\n\n"));
        for step in 0..4 + random.below(5) {
            text.push_str(&format!("## Step {}\n\n", step + 1));
            for _ in 0..3 + random.below(4) {
                let length = 8 + random.below(18);
                text.push_str(&sentence(&mut random, &words, length));
                text.push('\n');
            }
            text.push('\n');
        }
        text.pop();
        files.push((format!("{dir}/SKILL.md"), text));
        if i % 10 == 1 {
            let notes: String = (0..20).map(|_| sentence(&mut random, &words, 14) + "\n").collect();
            files.push((format!("{dir}/references/notes.md"), notes));
        }
        if i % 25 == 2 {
            files.push((format!("{dir}/scripts/run.sh"), format!("#!/bin/sh\necho {}\n", words[random.below(3000)])));
        }
        last_name = Some(name);
    }
    files
}

/// Writes a bundle of `count` skills below `dir`.
pub fn write_bundle(dir: &Path, count: usize) -> u64 {
    std::fs::write(dir.join("system.md"), "You are a bench.\n").expect("system.md");
    let mut bytes = 0;
    for (path, content) in skills(count) {
        let path = dir.join("skills").join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        bytes += content.len() as u64;
        std::fs::write(path, content).expect("a file");
    }
    bytes
}

/// A message of the corpus.
#[derive(Debug, Clone)]
pub struct Said {
    /// Which of the sessions of 100 messages.
    pub session: usize,
    /// 0 user, 1 and 3 assistant, 2 tool.
    pub turn: usize,
    /// What was said.
    pub content: String,
    /// Seconds since the epoch.
    pub at: i64,
}

/// A corpus with a needle every 997 messages and some Chinese and Japanese.
pub fn messages(count: usize) -> impl Iterator<Item = Said> {
    const CHINESE: [&str; 4] =
        ["我们讨论了分布系统的缓存策略", "数据库索引需要重新构建", "请检查部署脚本是否正确", "分布系统中的一致性问题"];
    const JAPANESE: [&str; 2] = ["検索エンジンの設定を確認しました", "メモリ使用量が増えています"];
    let words = vocabulary(8000, 11);
    let mut random = Random::new(42);
    (0..count).map(move |k| {
        let (session, turn) = (k / 100, k % 100 % 4);
        let most = [3, 6, 8, 6][turn];
        let mut sentences = Vec::new();
        for _ in 0..1 + random.below(most) {
            let length = 6 + random.below(10);
            sentences.push(sentence(&mut random, &words, length));
        }
        let mut content = sentences.join(" ");
        if k % 997 == 5 {
            content.push_str(&format!(" needle-{:04}", k / 997));
        }
        if k % 50 == 9 {
            content.push(' ');
            content.push_str(CHINESE[random.below(4)]);
        }
        if k % 200 == 11 {
            content.push(' ');
            content.push_str(JAPANESE[random.below(2)]);
        }
        if turn == 1 {
            random.below(8000);
        }
        Said { session, turn, content, at: 1_700_000_000 + session as i64 * 3600 + (k % 100) as i64 * 5 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the reference data, so that figures stay comparable.
    #[test]
    fn the_data_is_that_of_the_published_figures() {
        for (count, files, bytes) in [(100, 114, 352_380), (500, 570, 1_784_545), (5_000, 5_700, 17_660_532)] {
            let tree = skills(count);
            let total: usize = tree.iter().map(|(_, content)| content.len()).sum();
            assert_eq!((tree.len(), total), (files, bytes), "{count} skills");
        }
        assert_eq!(skills(3)[0].0.rsplit('/').nth(1), Some("gicegugu-natubuhu-00000"));
        assert!(messages(1_000).any(|said| said.content.ends_with("needle-0000")));
    }
}
