//! What a local model said can be shown again: from the record, and without it.

use std::sync::Arc;

use herm::backend::ModelCache;
use herm::harness::{replay, replay_with_backend};
use herm::{Task, TaskStatus};
use herm_tests::TempBrains;

use super::{ROLE, harness, model, toolbox, with_role};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_local_model_is_replayed_from_the_record_and_by_the_model_itself() {
    let shelf = ModelCache::new();
    let Some(local) = model(&shelf) else { return };
    let brains = TempBrains::new();
    let id = with_role(&brains, ROLE);
    let harness = harness(&brains, local);
    let outcome = harness.run(&id, Task::new("What is the capital of Kenya?")).await.expect("an outcome");
    assert_eq!(outcome.status, TaskStatus::Converged);
    harness.shutdown().await.expect("shut down");
    let work = tempfile::tempdir().expect("a directory");
    let recorded = replay(&brains.layout(), &id, 2, &toolbox(), work.path()).await.expect("replayed");
    assert!(recorded.is_same() && recorded.same_prompt, "{recorded:?}");
    // A model that has just been loaded, with nothing read before, says the same.
    let fresh = model(&ModelCache::new()).expect("the model");
    let spoken = replay_with_backend(&brains.layout(), &id, 2, &toolbox(), work.path(), Arc::new(fresh)).await;
    let spoken = spoken.expect("replayed");
    assert!(spoken.is_same() && spoken.same_prompt, "{spoken:?}");
}
