//! A launch agent of launchd: one property list in XML.

use herm::{BrainId, Error, Result};

use super::{ABOUT, MARK, Schedule, TimerPlan, full_path};

/// The label of a brain's agent.
pub(super) fn label(brain: &BrainId) -> String {
    format!("herm.evolver.{brain}")
}

/// The property list of a plan; an error for a calendar expression, which launchd does not know.
pub(super) fn agent(plan: &TimerPlan) -> Result<String> {
    let when = match &plan.schedule {
        Schedule::Hourly => every(3_600),
        Schedule::Every(seconds) => every(seconds.get()),
        Schedule::Daily => at("<key>Hour</key><integer>9</integer><key>Minute</key><integer>0</integer>"),
        Schedule::Weekly => at(
            "<key>Weekday</key><integer>1</integer><key>Hour</key><integer>9</integer><key>Minute</key><integer>0</integer>",
        ),
        Schedule::Calendar(expression) => {
            return Err(Error::invalid(format!("launchd has no calendar expressions such as {expression:?}"))
                .hint("write hourly, daily, weekly or a number of seconds"));
        }
    };
    let program = full_path(&plan.program, "the program")?;
    let words = std::iter::once(program).chain(plan.arguments.iter().map(String::as_str));
    let words: String = words.map(|word| format!("    {}\n", string(word))).collect();
    let variables = plan.environment.iter();
    let variables: String = variables
        .map(|(name, value)| format!("    <key>{}</key>{}\n", herm::text::escape_markup(name), string(value)))
        .collect();
    let directory = string(full_path(&plan.working_dir, "the working directory")?);
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- {MARK} {ABOUT} -->\n\
         <plist version=\"1.0\">\n<dict>\n  <key>Label</key>{}\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n\
         \x20 <key>EnvironmentVariables</key>\n  <dict>\n{variables}  </dict>\n\
         \x20 <key>WorkingDirectory</key>{directory}\n{when}\
         \x20 <key>ProcessType</key><string>Background</string>\n  <key>Umask</key><integer>63</integer>\n\
         </dict>\n</plist>\n",
        string(&label(&plan.brain))
    ))
}

fn every(seconds: u32) -> String {
    format!("  <key>StartInterval</key><integer>{seconds}</integer>\n")
}

fn at(fields: &str) -> String {
    format!("  <key>StartCalendarInterval</key><dict>{fields}</dict>\n")
}

fn string(text: &str) -> String {
    format!("<string>{}</string>", herm::text::escape_markup(text))
}
