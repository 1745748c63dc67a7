//! Leases: who works on a brain, so that two operators do not run tasks on it at the same time.
//!
//! A lease is a numbered object that is only ever created: taking, renewing and releasing each create the next
//! number. Nobody's clock is trusted. A process that finds a lease held watches it; if its number has not moved for
//! as long as it may stay unrenewed, by the watcher's own measure, the watcher creates the next one. A holder that
//! slept finds its number taken. Leases save work; what keeps a brain's history single is its heads.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::head::place;
use super::store::{CreateOutcome, ObjectName, claim};
use super::vault::Vault;
use crate::error::{Error, Result};
use crate::ids::BrainId;

const LEASE_SCHEMA: &str = "herm/lease@1";
/// Old numbers that stay: someone may be reading them.
const KEPT: u64 = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Record {
    schema: String,
    brain: BrainId,
    epoch: u64,
    owner: String,
    /// Whose it is, beyond doubt.
    holder: String,
    /// So that no two records are the same.
    nonce: String,
    held: bool,
    ttl_ms: u64,
}

/// The right to work on a brain, until it is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrainLease {
    brain: BrainId,
    epoch: u64,
    holder: String,
    ttl: Duration,
    renewed: Instant,
}

impl BrainLease {
    /// Its number; each renewal has the next.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it is old enough to be renewed.
    pub fn is_due(&self) -> bool {
        self.renewed.elapsed() >= self.ttl / 3
    }
}

/// What trying to take a lease gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAttempt {
    /// The lease was taken; it has to be renewed before its time is up.
    Ours(BrainLease),
    /// Someone else works on the brain.
    Busy {
        /// The name of the other operator, for people.
        owner: String,
        /// How long it must stay unrenewed, from now on, before it can be taken over.
        wait: Duration,
    },
}

/// A lease of someone else's, and since when its number has not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    epoch: u64,
    since: Instant,
}

fn name(brain: &BrainId, epoch: u64) -> Result<ObjectName> {
    place(brain, &format!("lease/{epoch:020}"))
}

impl Vault {
    /// Tries to take the lease of a brain.
    pub async fn take_lease(&self, brain: &BrainId, ttl: Duration) -> Result<LeaseAttempt> {
        let epochs = self.epochs(brain).await?;
        let last = match epochs.last() {
            Some(epoch) => self.record(brain, *epoch).await?,
            None => None,
        };
        let epoch = epochs.last().copied().unwrap_or(0);
        if let Some(record) = last.filter(|record| record.held) {
            let wait = Duration::from_millis(record.ttl_ms.min(24 * 3_600_000));
            let seen = self.watch(brain, epoch);
            if seen.elapsed() < wait {
                return Ok(LeaseAttempt::Busy { owner: record.owner, wait: wait - seen.elapsed() });
            }
            tracing::warn!(%brain, owner = record.owner, epoch, "taking over a lease that was not renewed");
        }
        let holder = self.writer()?.nonce;
        let lease = BrainLease { brain: brain.clone(), epoch, holder, ttl, renewed: Instant::now() };
        match self.next(&lease, Held::Yes).await {
            Ok(lease) => Ok(LeaseAttempt::Ours(lease)),
            Err(error) if error.kind() == crate::error::ErrorKind::Conflict => {
                Ok(LeaseAttempt::Busy { owner: "someone who was faster".to_owned(), wait: ttl })
            }
            Err(error) => Err(error),
        }
    }

    /// Renews a lease. `Conflict` where it was taken over: what was not pushed by now must be done again.
    pub async fn renew_lease(&self, lease: &BrainLease) -> Result<BrainLease> {
        self.next(lease, Held::Yes).await
    }

    /// Gives a lease back, so that nobody has to wait for it.
    pub async fn release_lease(&self, lease: &BrainLease) -> Result<()> {
        self.next(lease, Held::No).await.map(|_| ())
    }

    async fn next(&self, lease: &BrainLease, held: Held) -> Result<BrainLease> {
        let brain = &lease.brain;
        let epoch = lease.epoch + 1;
        let began = Instant::now();
        let record = Record {
            schema: LEASE_SCHEMA.to_owned(),
            brain: brain.clone(),
            epoch,
            owner: self.owner.clone(),
            holder: lease.holder.clone(),
            nonce: self.writer()?.nonce,
            held: held == Held::Yes,
            ttl_ms: u64::try_from(lease.ttl.as_millis()).unwrap_or(u64::MAX),
        };
        let content = serde_json::to_vec(&record)
            .map_err(|source| Error::internal("a lease cannot be written").because(source))?;
        let ours = claim(&*self.store, &name(brain, epoch)?, &content).await? == CreateOutcome::Yes;
        // Numbers that were tidied away can be created again by someone who slept meanwhile.
        let epochs = self.epochs(brain).await?;
        if !ours || epochs.iter().any(|found| *found > epoch) {
            if ours {
                self.store.remove(&name(brain, epoch)?).await?;
            }
            return Err(Error::conflict(format!("the lease of brain {brain} belongs to someone else by now"))
                .hint("restore the brain as it is there, and do again what was not pushed"));
        }
        for old in epochs.into_iter().filter(|old| old + KEPT < epoch) {
            self.store.remove(&name(brain, old)?).await?;
        }
        Ok(BrainLease { epoch, renewed: began, ..lease.clone() })
    }

    async fn epochs(&self, brain: &BrainId) -> Result<Vec<u64>> {
        let listed = self.store.list(&place(brain, "lease")?, None).await?;
        Ok(listed.iter().filter_map(|object| object.name.last().parse().ok()).collect())
    }

    async fn record(&self, brain: &BrainId, epoch: u64) -> Result<Option<Record>> {
        let Some(bytes) = self.store.get(&name(brain, epoch)?, 64 << 10).await? else { return Ok(None) };
        let broken = || {
            Error::corrupt(format!("lease {epoch} of brain {brain} in the store is damaged"))
                .hint("remove the object when nobody works on the brain")
        };
        let record: Record = serde_json::from_slice(&bytes).map_err(|source| broken().because(source))?;
        let fits = record.schema == LEASE_SCHEMA && record.brain == *brain && record.epoch == epoch;
        if fits { Ok(Some(record)) } else { Err(broken()) }
    }

    /// Since when a lease has been seen with this number.
    fn watch(&self, brain: &BrainId, epoch: u64) -> Instant {
        let mut watched = self.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Watched { epoch, since: Instant::now() };
        let seen = watched.entry(brain.clone()).or_insert(now);
        if seen.epoch != epoch {
            *seen = now;
        }
        seen.since
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Encryption;
    use crate::clock::SystemClock;
    use crate::error::ErrorKind;
    use crate::ids::SystemRandom;
    use crate::store::MemoryStore;

    const TTL: Duration = Duration::from_secs(30);

    fn vaults() -> (Vault, Vault, BrainId) {
        let store = Arc::new(MemoryStore::new());
        let vault = |owner: &str| {
            Vault::new(store.clone(), Encryption::Plaintext, owner, Arc::new(SystemRandom), Arc::new(SystemClock))
        };
        (vault("one"), vault("two"), "7".parse().unwrap())
    }

    fn ours(taken: LeaseAttempt) -> BrainLease {
        match taken {
            LeaseAttempt::Ours(lease) => lease,
            busy => panic!("{busy:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_renewed_is_never_taken_over() {
        let (one, two, brain) = vaults();
        let mut lease = ours(one.take_lease(&brain, TTL).await.unwrap());
        for _ in 0..50 {
            let taken = two.take_lease(&brain, TTL).await.unwrap();
            assert!(matches!(taken, LeaseAttempt::Busy { ref owner, .. } if owner == "one"), "{taken:?}");
            tokio::time::advance(TTL - Duration::from_secs(1)).await;
            assert!(lease.is_due());
            lease = one.renew_lease(&lease).await.unwrap();
        }
        assert!(one.epochs(&brain).await.unwrap().len() <= 1 + KEPT as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_slept_is_told_and_cannot_come_back() {
        let (one, two, brain) = vaults();
        let lease = ours(one.take_lease(&brain, TTL).await.unwrap());
        assert!(matches!(two.take_lease(&brain, TTL).await.unwrap(), LeaseAttempt::Busy { .. }));
        tokio::time::advance(TTL).await;
        let theirs = ours(two.take_lease(&brain, TTL).await.unwrap());
        assert_eq!(one.renew_lease(&lease).await.unwrap_err().kind(), ErrorKind::Conflict);
        let mut theirs = two.renew_lease(&theirs).await.unwrap();
        for _ in 0..10 {
            theirs = two.renew_lease(&theirs).await.unwrap();
        }
        // Its next number was tidied away meanwhile, and can be created: that does not help it.
        assert_eq!(one.renew_lease(&lease).await.unwrap_err().kind(), ErrorKind::Conflict);
        two.renew_lease(&theirs).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_given_back_is_free_at_once() {
        let (one, two, brain) = vaults();
        let lease = ours(one.take_lease(&brain, TTL).await.unwrap());
        one.release_lease(&lease).await.unwrap();
        ours(two.take_lease(&brain, TTL).await.unwrap());
    }
}
