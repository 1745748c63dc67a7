//! Numbers that make a permission good for one time, and the store of those that were used.

use crate::error::{Error, Result};
use crate::fsio::Root;
use crate::ids::{Random, RelPath, sha256};
use crate::layout::Layout;
use crate::receipt::PublicKey;

/// 16 random bytes as 32 digits of 0-9 a-f.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Nonce(Box<str>);

herm_core::validated_text!(Nonce);

impl Nonce {
    /// Draws a nonce; an error where there is no randomness.
    pub fn new(random: &dyn Random) -> Result<Self> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes)?;
        let digits = crate::ids::hex(&bytes);
        Ok(Self(digits.into()))
    }

    /// Refuses everything but 32 digits of 0-9 a-f.
    pub fn validate(text: &str) -> Result<()> {
        if text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(());
        }
        Err(Error::invalid("a nonce is 32 digits of 0-9 a-f").hint("let herm make it: 16 random bytes"))
    }
}

/// The nonces that were used: one file each, created once and never replaced. It outlives the process, and of several
/// processes that use a nonce at the same moment, one does.
#[derive(Debug)]
pub struct NonceStore {
    root: Root,
}

impl NonceStore {
    /// Opens the used nonces that are kept in the directory of these brains, and creates it where it is missing.
    pub fn open(layout: &Layout) -> Result<Self> {
        Ok(Self { root: gates(layout, &["nonces"])? })
    }

    /// Uses a nonce of a key up, with a note of what for; `false` where it was used before. It is on the
    /// disk when this returns.
    pub fn spend(&mut self, key: &PublicKey, nonce: &Nonce, what_for: &str) -> Result<bool> {
        self.root.create(&place(key, nonce)?, format!("{key} {nonce} {what_for}\n").as_bytes())
    }

    /// Whether a nonce of a key was used.
    pub fn is_spent(&self, key: &PublicKey, nonce: &Nonce) -> Result<bool> {
        Ok(self.root.stat(&place(key, nonce)?)?.is_some())
    }
}

fn place(key: &PublicKey, nonce: &Nonce) -> Result<RelPath> {
    format!("nonces/{}", sha256(format!("{key} {nonce}").as_bytes())).parse()
}

/// The directory of what gates remember, with these below it. The directories are on the disk when this returns, so
/// that a file made in them stays.
pub(super) fn gates(layout: &Layout, below: &[&str]) -> Result<Root> {
    let path = layout.successors().join("gates");
    for name in below {
        crate::fsio::create_dirs(&path.join(name))?;
    }
    let root = Root::open(&path)?;
    root.sync_dir(None)?;
    for above in [layout.successors().as_path(), layout.brains()] {
        // The brains directory itself may be a link.
        let above = above.canonicalize().map_err(|source| Error::io("open", above, source))?;
        Root::open(&above)?.sync_dir(None)?;
    }
    Ok(root)
}
