use proptest::prelude::*;

use super::*;

/// A task that went well.
fn fine() -> TaskObservation {
    TaskObservation {
        step: 2,
        at: Timestamp(0),
        stop: StopReason::Final,
        turns: 4,
        turn_limit: 8,
        millis: Some(2_000),
        calls: vec![call("scan", EvidenceStatus::Ok, 50)],
        nudges: 0,
        repaired: 0,
        cut: 0,
        context_bytes: 10_000,
        context_limit: 100_000,
        shrunk: false,
        has_index: true,
    }
}

fn call(tool: &str, status: EvidenceStatus, millis: u64) -> ObservedCall {
    ObservedCall { tool: tool.to_owned(), status, millis, found_nothing: false }
}

fn roomy() -> BrainStats {
    BrainStats { own_skills: 0, unused: 0, index_fits: true, rows: 1_000 }
}

/// `bad` tasks of one kind among `of`.
fn tasks(bad: usize, of: usize, change: impl Fn(&mut TaskObservation)) -> Vec<TaskObservation> {
    let one = |at: usize| {
        let mut task = fine();
        if at < bad {
            change(&mut task);
        }
        task
    };
    (0..of).map(one).collect()
}

fn kinds(observations: &[TaskObservation]) -> Vec<BottleneckKind> {
    detect(observations, &roomy()).into_iter().map(|one| one.kind).collect()
}

#[test]
fn a_brain_whose_tasks_go_well_has_no_bottleneck() {
    assert_eq!(kinds(&tasks(0, 50, |_| {})), []);
    assert_eq!(kinds(&[]), []);
}

#[test]
fn every_share_of_tasks_is_found_at_its_threshold_and_not_below() {
    type Change = fn(&mut TaskObservation);
    let table: [(BottleneckKind, usize, Change); 4] = [
        (BottleneckKind::ContextPressure, 2, |task| task.shrunk = true),
        (BottleneckKind::IndexMisses, 4, |task| task.calls.push(call("skills_list", EvidenceStatus::Ok, 1))),
        (BottleneckKind::Ceiling, 2, |task| task.stop = StopReason::Ceiling),
        (BottleneckKind::NonConvergence, 4, |task| task.stop = StopReason::Deadline),
    ];
    for (kind, at, change) in table {
        assert_eq!(kinds(&tasks(at, 20, change)), [kind], "{kind:?} at {at} of 20");
        assert_eq!(kinds(&tasks(at - 1, 20, change)), [], "{kind:?} below");
        assert_eq!(kinds(&tasks(4, 4, change)), [], "{kind:?} of four tasks");
    }
}

#[test]
fn a_conversation_near_its_limit_counts_before_anything_shrinks() {
    assert_eq!(kinds(&tasks(20, 20, |task| task.context_bytes = 90_000)), [BottleneckKind::ContextPressure]);
    assert_eq!(kinds(&tasks(20, 20, |task| task.context_bytes = 89_999)), []);
}

#[test]
fn replies_are_counted_by_turns_and_tools_by_calls() {
    assert_eq!(kinds(&tasks(20, 20, |task| task.nudges = 1)), [BottleneckKind::Nudges]);
    assert_eq!(kinds(&tasks(4, 20, |task| task.cut = 1)), [BottleneckKind::CutReplies]);
    let failing =
        detect(&tasks(2, 10, |task| task.calls = vec![call("fetch", EvidenceStatus::Failed, 1); 3]), &roomy());
    assert_eq!(failing.len(), 1, "{failing:?}");
    assert_eq!(failing[0].sentence(), "a tool fails (fetch): 6 of 6, 100 %, from 20 % on");
    let refused = kinds(&tasks(1, 10, |task| task.calls = vec![call("fetch", EvidenceStatus::Refused, 1); 4]));
    assert_eq!(refused, [], "four calls say too little");
}

#[test]
fn time_is_told_apart_by_searches_other_tools_and_replies() {
    assert_eq!(
        kinds(&tasks(10, 10, |task| task.calls = vec![call("recall", EvidenceStatus::Ok, 100)])),
        [BottleneckKind::SlowSearch]
    );
    assert_eq!(
        kinds(&tasks(10, 10, |task| task.calls = vec![call("scan", EvidenceStatus::Ok, 2_000)])),
        [BottleneckKind::SlowTool]
    );
    assert_eq!(kinds(&tasks(10, 10, |task| task.millis = Some(60_050))), [BottleneckKind::SlowReplies]);
    assert_eq!(kinds(&tasks(10, 10, |task| task.millis = None)), [], "a clock that went back says nothing");
}

#[test]
fn searches_that_find_nothing_or_are_repeated_are_poor_recall() {
    let search = |found_nothing| ObservedCall { found_nothing, ..call("recall", EvidenceStatus::Ok, 1) };
    assert_eq!(kinds(&tasks(10, 10, |task| task.calls = vec![search(true)])), [BottleneckKind::LowRecall]);
    assert_eq!(kinds(&tasks(9, 9, |task| task.calls = vec![search(true)])), [], "a young brain has nothing to find");
    assert_eq!(
        kinds(&tasks(5, 5, |task| task.calls = vec![search(false), search(false)])),
        [BottleneckKind::LowRecall]
    );
    assert_eq!(kinds(&tasks(10, 10, |task| task.calls = vec![search(false)])), []);
}

#[test]
fn unused_skills_matter_only_where_they_crowd_the_index() {
    let crowded = BrainStats { own_skills: 20, unused: 10, index_fits: false, rows: 1_000 };
    let found = |standing: &BrainStats| detect(&[], standing).into_iter().map(|one| one.kind).collect::<Vec<_>>();
    assert_eq!(found(&crowded), [BottleneckKind::UnusedSkills]);
    assert_eq!(found(&BrainStats { index_fits: true, ..crowded }), []);
    assert_eq!(found(&BrainStats { unused: 9, ..crowded }), []);
}

#[test]
fn what_is_furthest_beyond_its_threshold_comes_first() {
    let mut all = tasks(10, 20, |task| task.shrunk = true);
    all[0].stop = StopReason::Ceiling;
    all[1].stop = StopReason::Ceiling;
    let found = detect(&all, &roomy());
    assert_eq!(
        found.iter().map(|one| (one.kind, one.count, one.of)).collect::<Vec<_>>(),
        [(BottleneckKind::ContextPressure, 10, 20), (BottleneckKind::Ceiling, 2, 20)]
    );
}

#[test]
fn a_task_that_its_caller_ended_is_nobodys_fault() {
    assert_eq!(kinds(&tasks(20, 20, |task| task.stop = StopReason::Cancelled)), []);
}

#[test]
fn measures_add_up() {
    let all = measure(&tasks(1, 3, |task| {
        task.stop = StopReason::Ceiling;
        task.calls.push(call("scan", EvidenceStatus::Failed, 7));
    }));
    assert_eq!((all.tasks, all.turns, all.at_ceiling), (3, 12, 1));
    assert_eq!(all.stops, BTreeMap::from([("ceiling", 1), ("final", 2)]));
    assert_eq!(all.tools["scan"], ToolStats { calls: 4, errors: 1, millis: 157 });
    assert_eq!((all.tool_millis, all.reply_millis), (157, 6_000 - 157));
}

fn observations() -> impl Strategy<Value = Vec<TaskObservation>> {
    let stop =
        prop::sample::select(vec![StopReason::Final, StopReason::Ceiling, StopReason::Stuck, StopReason::Backend]);
    let tool = prop::sample::select(vec!["recall", "skills_list", "skill_view", "scan"]);
    let status = prop::sample::select(vec![EvidenceStatus::Ok, EvidenceStatus::Failed, EvidenceStatus::Refused]);
    let call = (tool, status, 0..5_000_u64, any::<bool>()).prop_map(|(tool, status, millis, found_nothing)| {
        ObservedCall { tool: tool.to_owned(), status, millis, found_nothing }
    });
    let one =
        (stop, 0..9_u32, prop::option::of(0..200_000_u64), prop::collection::vec(call, 0..8), 0..9_u32, any::<bool>())
            .prop_map(|(stop, turns, millis, calls, nudges, shrunk)| TaskObservation {
                stop,
                turns,
                millis,
                calls,
                nudges: nudges.min(turns),
                shrunk,
                ..fine()
            });
    prop::collection::vec(one, 0..30)
}

proptest! {
    #[test]
    fn what_is_found_reaches_its_threshold_and_is_ranked(all in observations(), own in 0..40_usize, unused in 0..40_usize) {
        let standing = BrainStats { own_skills: own, unused: unused.min(own), index_fits: false, rows: 1_000 };
        let found = detect(&all, &standing);
        for one in &found {
            prop_assert!(one.found >= one.threshold && one.count <= one.of, "{one:?}");
            prop_assert_eq!(one.threshold, one.kind.threshold());
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].severity() >= pair[1].severity()));
        prop_assert_eq!(&found, &detect(&all, &standing), "the same observations give the same bottlenecks");
        let mut turned = all.clone();
        turned.reverse();
        prop_assert_eq!(&found, &detect(&turned, &standing), "in whatever order they come");
    }
}
