//! Receipts: a signed statement of every step of a brain.
//!
//! - [`Signer`] holds the key and is the [`StepSigner`](crate::brain::StepSigner) of a brain.
//! - [`Envelope`] is a DSSE envelope around an in-toto statement; [`PublicKey`] checks it.
//! - [`check`] follows a chain of receipts from its first and says what is proven and what is not.
//!
//! The formats are in `docs/reference/receipt.md`.

mod chain;
mod statement;

pub use crate::signing::{Envelope, LazySigner, PAYLOAD_TYPE, PublicKey, Signer};
pub use chain::{ChainFinding, ChainReport, TrustedKeys, check, repair};
pub use statement::{CHECKPOINT_TYPE, RECEIPT_TYPE, STATEMENT_TYPE, checkpoint};
