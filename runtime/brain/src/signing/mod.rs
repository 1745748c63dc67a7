//! Keys and signatures: what a step is signed with, and the DSSE envelope around what was signed. It knows nothing of brains
//! and steps; [`receipt`](crate::receipt) says what a signed statement means.

mod envelope;
mod key;

pub use envelope::{Envelope, PAYLOAD_TYPE};
pub use key::{LazySigner, PublicKey, Signer};
