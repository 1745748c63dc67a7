use super::*;

fn skill(name: &str, body: &str) -> MergeCandidate {
    MergeCandidate {
        skill: name.parse().unwrap(),
        text: format!("---\nname: {name}\ndescription: What to do.\n---\n\n{body}\n"),
        proven: false,
        uses: 0,
        created_at: Timestamp(0),
        has_files: false,
    }
}

const DESK: &str = "# Lost things\n\n1. Ask the cloakroom desk with the ticket number.\n2. If the desk says closed, ask \
    the porter at the north gate.\n3. Answer with the shelf and the drawer.\n";
const DESK_AGAIN: &str = "- Ask the cloakroom desk; give it the ticket number.\n- If the desk says closed, the porter at the \
    north gate knows.\n- Answer with the shelf and the drawer.\n- Umbrellas stand in the cellar.\n\n```sh\nporter \
    --gate north --ask\n```\n";
const SCALE: &str = "1. Weigh the parcel on the brass scale.\n2. Convert pounds to kilograms before you answer.\n3. Round \
    to one decimal place.\n";

#[test]
fn what_says_nearly_the_same_is_a_group_and_the_rest_is_left_alone() {
    let old = MergeCandidate { created_at: Timestamp(-5), ..skill("lost-things", DESK) };
    let skills = [skill("find-lost-things", DESK_AGAIN), skill("weigh", SCALE), old];
    let groups = overlapping(&skills);
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(groups[0].keeper.as_str(), "lost-things", "the older one stays");
    assert_eq!(groups[0].others[0].0.as_str(), "find-lost-things");
    // Whatever the order in which they come.
    let mut other_way = skills.clone();
    other_way.reverse();
    assert_eq!(overlapping(&other_way), groups);
}

#[test]
fn what_helps_stays_then_what_is_used_more_and_what_has_files_is_not_taken_in() {
    let twins = || [skill("a", DESK), skill("b", DESK_AGAIN)];
    let keeper = |skills: &[MergeCandidate]| overlapping(skills).pop().map(|group| group.keeper.to_string());
    assert_eq!(keeper(&twins()).as_deref(), Some("a"));
    let [a, b] = twins();
    assert_eq!(keeper(&[a.clone(), MergeCandidate { uses: 3, ..b.clone() }]).as_deref(), Some("b"));
    let proven = MergeCandidate { proven: true, ..a.clone() };
    assert_eq!(keeper(&[proven, MergeCandidate { uses: 3, ..b.clone() }]).as_deref(), Some("a"));
    let with_files = |skill: &MergeCandidate| MergeCandidate { has_files: true, ..skill.clone() };
    assert_eq!(keeper(&[with_files(&a), b.clone()]).as_deref(), Some("a"));
    assert_eq!(keeper(&[a, with_files(&b)]), None);
}

#[test]
fn a_merge_keeps_the_text_and_takes_in_the_lines_that_it_lacks() {
    let (keeper, other) = (skill("lost-things", DESK), skill("find-lost-things", DESK_AGAIN));
    let text = merged(&keeper.text, [other.text.as_str()]);
    let added = "\n\n## More on this\n\n- Umbrellas stand in the cellar.\n\n```sh\nporter --gate north --ask\n```\n";
    assert_eq!(text, format!("{}{added}", keeper.text.trim_end()));
    // Once is enough, and what lacks nothing stays as it is.
    assert_eq!(merged(&text, [other.text.as_str()]), text);
    assert_eq!(merged(&keeper.text, [keeper.text.as_str()]), keeper.text);
}

#[test]
fn notes_of_the_evolver_stay_at_the_end_and_those_of_others_are_left() {
    let notes = "<!-- curator-evolver:auto:start -->\n## Auto-curated evidence notes\n\nPorters were asleep twice.\n\
                 <!-- curator-evolver:auto:end -->\n";
    let keeper = format!("{}\n{notes}", skill("a", DESK).text);
    let other = format!("{}\n{}", skill("b", DESK_AGAIN).text, notes.replace("Porters", "Guards"));
    let text = merged(&keeper, [other.as_str()]);
    assert!(text.ends_with(notes) && !text.contains("Guards"), "{text}");
    assert!(text.find("Umbrellas") < text.find("Auto-curated"), "{text}");
    assert_eq!(text.matches("curator-evolver:auto:start").count(), 1);
}

#[test]
fn lines_of_a_file_from_windows_stay_so() {
    let keeper = skill("a", DESK).text.replace('\n', "\r\n");
    let text = merged(&keeper, [skill("b", DESK_AGAIN).text.as_str()]);
    assert!(text.contains("\r\n- Umbrellas stand in the cellar.\r\n") && !text.replace("\r\n", "").contains('\n'));
}

/// Numbers that look drawn, the same in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Lines of a skill about one matter: half of the words are of the matter, the others are common to all that an
/// agent writes about any matter.
fn lines(draws: &mut Draws, matter: usize) -> Vec<String> {
    let mut line = || {
        let word = |draws: &mut Draws| match draws.below(2) {
            0 => format!("matter{matter}x{}", draws.below(25)),
            _ => format!("common{}", draws.below(60)),
        };
        (0..6).map(|_| word(draws)).collect::<Vec<_>>().join(" ")
    };
    (0..10).map(|_| line()).collect()
}

#[test]
fn the_floor_tells_accounts_of_the_same_matter_from_skills_about_others() {
    let (mut found, mut wrong) = (0, 0);
    for round in 0..200 {
        let mut draws = Draws(round);
        let first = lines(&mut draws, 1);
        // The same matter told again: four lines of ten are others.
        let mut again = first.clone();
        for (at, line) in lines(&mut draws, 1).into_iter().enumerate().take(4) {
            again[at] = line;
        }
        let other = lines(&mut draws, 2);
        let body = |lines: &[String]| lines.iter().map(|line| format!("- {line}\n")).collect::<String>();
        found += overlapping(&[skill("one", &body(&first)), skill("two", &body(&again))]).len();
        wrong += overlapping(&[skill("one", &body(&first)), skill("two", &body(&other))]).len();
    }
    assert!(found >= 190 && wrong == 0, "{found} of 200 found, {wrong} of 200 wrong");
}
