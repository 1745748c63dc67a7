//! The talk with a worker: an order, what the worker asks meanwhile, and what came of it. A session asks one question
//! at a time, and nothing holds a worker to that: questions are answered side by side as they come. Programs run one
//! after the other, each with the whole share of its side.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::text;
use crate::wire::{self, Answer, FromWorker, ToWorker, WireAsk};

/// The most questions of one worker that are answered at the same time. A further question waits.
const MOST_AT_ONCE: usize = 64;
/// The most memory of such questions, but for one that is larger by itself.
const MOST_BYTES_AT_ONCE: usize = 32 << 20;
/// How long a worker may leave an answer unread. Its death alone need not close the socket: it may have sent its own
/// end of it to us.
const LONGEST_WRITE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// Why a conversation with a worker ended before its answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The socket closed, or nobody speaks with it any more.
    Gone,
    /// It said what no worker says.
    Forged(String),
    /// No thread can be started to answer it.
    NoThread(String),
}

/// Who answers a worker.
pub(super) trait Responder: Sync {
    /// Answers a question, unless it is over before there is an answer. Nothing ends the conversation.
    fn reply(&self, ask: WireAsk, over: watch::Receiver<bool>) -> Option<Answer>;

    /// Runs the program with this SHA-256, called `name` in messages; blocks until it ends or its time is up.
    fn program(&self, name: &str, program: &str, input: String, millis: u64) -> Answer;
}

/// Sends an order and answers questions until the worker says what came of it, or one is not answered. What is still
/// asked then is given up.
pub(super) fn converse(stream: &UnixStream, order: &ToWorker, desk: &impl Responder) -> Result<FromWorker, Broken> {
    let (over, room) = (watch::Sender::new(false), Room::default());
    let writing = Mutex::new(stream);
    // After a piece of a frame there can be no other; what is queued can still be read.
    let end = || {
        over.send_replace(true);
        let _ = stream.shutdown(Shutdown::Both);
    };
    let say = |frame: &ToWorker| {
        wire::send(&mut *lock(&writing), frame).map_err(|_| {
            end();
            Broken::Gone
        })
    };
    stream.set_write_timeout(Some(LONGEST_WRITE)).map_err(|_| Broken::Gone)?;
    say(order)?;
    std::thread::scope(|scope| {
        let said = loop {
            let heard = hear(stream);
            if *over.borrow() {
                break Err(Broken::Gone);
            }
            match heard {
                Ok(FromWorker::Ask { id, ask }) => {
                    let place = room.enter(size(&ask));
                    let (say, end, over) = (&say, &end, &over);
                    let answering = move || {
                        let _place = place;
                        match desk.reply(ask, over.subscribe()) {
                            // Where this fails, `say` ends the conversation, and the loop sees that it is over.
                            Some(answer) if !*over.borrow() => drop(say(&ToWorker::Answer { id, answer })),
                            Some(_) => {}
                            None => end(),
                        }
                    };
                    if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, answering) {
                        break Err(Broken::NoThread(error.to_string()));
                    }
                }
                Ok(FromWorker::Program { id, name, program, input, millis }) => {
                    let answer = desk.program(&name, &program, input, millis);
                    if let Err(broken) = say(&ToWorker::Answer { id, answer }) {
                        break Err(broken);
                    }
                }
                said => break said,
            }
        };
        match said {
            Ok(_) => drop(over.send_replace(true)),
            Err(_) => end(),
        }
        said
    })
}

fn hear(mut stream: &UnixStream) -> Result<FromWorker, Broken> {
    match wire::receive(&mut stream) {
        Ok(frame) => frame.ok_or(Broken::Gone),
        Err(error) => Err(match error.kind() {
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                Broken::Forged(text::line(&error.to_string(), 200))
            }
            _ => Broken::Gone,
        }),
    }
}

/// How much memory a question may take while it is answered: a message is more than its text, and a schema that was
/// read many times its text.
fn size(ask: &WireAsk) -> usize {
    const MESSAGE: usize = 256;
    const SCHEMA: usize = 64;
    let messages: usize = ask.messages.iter().map(|message| MESSAGE + 4 * message.content.len()).sum();
    messages + SCHEMA * ask.legal.len()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room for questions. A worker cannot fill the parent's memory by asking faster than anyone can answer.
#[derive(Debug, Default)]
struct Room {
    /// How many are inside, and their bytes.
    inside: Mutex<(usize, usize)>,
    left: Condvar,
}

/// Whether there is room for a question of so many bytes beside those inside.
fn fits((count, all): (usize, usize), bytes: usize) -> bool {
    count == 0 || (count < MOST_AT_ONCE && all.saturating_add(bytes) <= MOST_BYTES_AT_ONCE)
}

/// A question that is being answered.
struct Place<'a> {
    room: &'a Room,
    bytes: usize,
}

impl Room {
    /// Waits until there is room for a question of so many bytes.
    fn enter(&self, bytes: usize) -> Place<'_> {
        let waiting = self.left.wait_while(lock(&self.inside), |inside| !fits(*inside, bytes));
        let mut inside = waiting.unwrap_or_else(PoisonError::into_inner);
        inside.0 += 1;
        inside.1 += bytes;
        Place { room: self, bytes }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = lock(&self.room.inside);
        inside.0 -= 1;
        inside.1 -= self.bytes;
        self.room.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::backend::{ChatMessage, Purpose, Role};

    /// Knows no program, and answers questions as told.
    struct FixedResponder<F>(F);

    impl<F: Fn(watch::Receiver<bool>) -> Option<Answer> + Sync> Responder for FixedResponder<F> {
        fn reply(&self, _: WireAsk, over: watch::Receiver<bool>) -> Option<Answer> {
            (self.0)(over)
        }

        fn program(&self, _: &str, _: &str, _: String, _: u64) -> Answer {
            no("there is no such program")
        }
    }

    fn no(why: &str) -> Answer {
        Answer::NoOutput(why.to_owned())
    }

    fn order() -> ToWorker {
        ToWorker::Replay { seq: 1, asked: None }
    }

    fn question(id: u64) -> FromWorker {
        let ask = WireAsk {
            backend: "any".to_owned(),
            messages: Vec::new(),
            purpose: Purpose::Turn,
            tools: Default::default(),
            legal: "true".to_owned(),
            max_output_tokens: 1,
            max_output_bytes: 1,
            temperature: 0.0,
        };
        FromWorker::Ask { id, ask }
    }

    fn done() -> FromWorker {
        FromWorker::Failed("that is all".to_owned())
    }

    /// A worker that says these bytes and leaves.
    fn hearing(bytes: &[u8]) -> Result<FromWorker, Broken> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        converse(&ours, &order(), &FixedResponder(|_| None))
    }

    fn framed(body: &str) -> Vec<u8> {
        [(body.len() as u32).to_le_bytes().as_slice(), body.as_bytes()].concat()
    }

    #[test]
    fn a_worker_that_leaves_is_gone_and_one_that_lies_is_found_out() {
        assert_eq!(hearing(b"").unwrap_err(), Broken::Gone);
        assert_eq!(hearing(&framed("{}")[..4]).unwrap_err(), Broken::Gone);
        for forged in [framed("APPROVE"), framed("{\"Verdict\":\"APPROVE\"}"), framed("{\"Done\":"), vec![255; 8]] {
            assert!(matches!(hearing(&forged), Err(Broken::Forged(_))), "{forged:?}");
        }
    }

    #[test]
    fn programs_are_run_until_it_says_what_came_of_it() {
        let (ours, mut inside) = UnixStream::pair().unwrap();
        let worker = std::thread::spawn(move || {
            let _: Option<ToWorker> = wire::receive(&mut inside).unwrap();
            for id in 0..3 {
                let (name, program, input) = ("count".to_owned(), "0".repeat(64), String::new());
                wire::send(&mut inside, &FromWorker::Program { id, name, program, input, millis: 1 }).unwrap();
                let answer: Option<ToWorker> = wire::receive(&mut inside).unwrap();
                assert!(matches!(answer, Some(ToWorker::Answer { id: answered, .. }) if answered == id));
            }
            wire::send(&mut inside, &done()).unwrap();
        });
        let said = converse(&ours, &order(), &FixedResponder(|_| None));
        worker.join().unwrap();
        assert!(matches!(said, Ok(FromWorker::Failed(why)) if why == "that is all"));
    }

    #[test]
    fn questions_are_answered_side_by_side_and_no_more_than_there_is_room_for() {
        let (ours, mut inside) = UnixStream::pair().unwrap();
        let (asked, most) = (3 * MOST_AT_ONCE as u64, AtomicUsize::new(0));
        let worker = std::thread::spawn(move || {
            let mut reading = inside.try_clone().unwrap();
            let _: Option<ToWorker> = wire::receive(&mut reading).unwrap();
            let heard = std::thread::spawn(move || {
                let ids = (0..asked).map(|_| match wire::receive(&mut reading).unwrap() {
                    Some(ToWorker::Answer { id, .. }) => id,
                    other => panic!("{other:?}"),
                });
                ids.collect::<std::collections::BTreeSet<u64>>()
            });
            (0..asked).for_each(|id| wire::send(&mut inside, &question(id)).unwrap());
            assert_eq!(heard.join().unwrap(), (0..asked).collect());
            wire::send(&mut inside, &done()).unwrap();
        });
        // As many as fit have to be here at the same time before any of them is answered.
        let (together, now) = (Barrier::new(MOST_AT_ONCE), AtomicUsize::new(0));
        let said = converse(
            &ours,
            &order(),
            &FixedResponder(|_| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                together.wait();
                now.fetch_sub(1, Ordering::SeqCst);
                Some(no("no"))
            }),
        );
        worker.join().unwrap();
        assert!(matches!(said, Ok(FromWorker::Failed(_))));
        assert_eq!(most.load(Ordering::SeqCst), MOST_AT_ONCE);
    }

    #[test]
    fn one_question_that_is_not_answered_ends_it_and_the_others_are_given_up() {
        let (ours, mut inside) = UnixStream::pair().unwrap();
        let worker = std::thread::spawn(move || {
            let _: Option<ToWorker> = wire::receive(&mut inside).unwrap();
            (0..5).for_each(|id| wire::send(&mut inside, &question(id)).unwrap());
            let answer: std::io::Result<Option<ToWorker>> = wire::receive(&mut inside);
            assert!(!matches!(answer, Ok(Some(_))), "nobody is answered any more");
        });
        let (given_up, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let said = converse(
            &ours,
            &order(),
            &FixedResponder(|mut over: watch::Receiver<bool>| {
                if count.fetch_add(1, Ordering::SeqCst) == 4 {
                    return None;
                }
                runtime.block_on(over.wait_for(|over| *over)).unwrap();
                given_up.fetch_add(1, Ordering::SeqCst);
                Some(no("it is over"))
            }),
        );
        worker.join().unwrap();
        assert_eq!(said.unwrap_err(), Broken::Gone);
        assert_eq!(given_up.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn what_is_still_asked_when_a_case_is_done_is_given_up() {
        let (ours, mut inside) = UnixStream::pair().unwrap();
        wire::send(&mut inside, &question(1)).unwrap();
        wire::send(&mut inside, &done()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let said = converse(
            &ours,
            &order(),
            &FixedResponder(|mut over: watch::Receiver<bool>| {
                runtime.block_on(over.wait_for(|over| *over)).unwrap();
                Some(no("it is over"))
            }),
        );
        assert!(matches!(said, Ok(FromWorker::Failed(_))));
        let first: Option<ToWorker> = wire::receive(&mut inside).unwrap();
        assert!(matches!(first, Some(ToWorker::Replay { .. })));
        drop(ours);
        assert!(wire::receive::<ToWorker>(&mut inside).unwrap().is_none(), "nothing else was said");
    }

    #[test]
    fn questions_that_are_too_large_together_wait_and_one_by_itself_does_not() {
        assert!(fits((0, 0), MOST_BYTES_AT_ONCE * 2));
        assert!(!fits((1, MOST_BYTES_AT_ONCE * 2), 1));
        assert!(fits((1, MOST_BYTES_AT_ONCE - 1), 1) && !fits((1, MOST_BYTES_AT_ONCE), 1));
        assert!(fits((MOST_AT_ONCE - 1, 0), 1) && !fits((MOST_AT_ONCE, 0), 1));
        let room = Room::default();
        let large = room.enter(MOST_BYTES_AT_ONCE * 2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| room.enter(1).bytes);
            drop(large);
            assert_eq!(waiting.join().unwrap(), 1);
        });
        assert_eq!(*lock(&room.inside), (0, 0));
    }

    #[test]
    fn a_question_of_many_small_things_is_counted_as_the_memory_it_takes() {
        let FromWorker::Ask { mut ask, .. } = question(1) else { panic!("a question") };
        let empty = ChatMessage { role: Role::User, content: "".into() };
        ask.messages = vec![empty; 500_000];
        assert!(size(&ask) > MOST_BYTES_AT_ONCE);
        (ask.messages, ask.legal) = (Vec::new(), "[0]".repeat(80_000));
        assert!(size(&ask) * 3 > MOST_BYTES_AT_ONCE);
    }

    /// A worker that floods, reads nothing, and sends us its own end of the socket before it dies: that end stays open
    /// for as long as we do not read.
    #[test]
    fn a_worker_that_never_reads_and_keeps_its_end_open_is_ended() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::os::fd::AsFd as _;
        let (ours, inside) = UnixStream::pair().unwrap();
        let worker = std::thread::spawn(move || {
            let (name, program, input) = ("p".to_owned(), "0".repeat(64), String::new());
            let program = FromWorker::Program { id: 1, name, program, input, millis: 1 };
            let frame = framed(&serde_json::to_string(&program).unwrap());
            inside.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            loop {
                let fds = [inside.as_fd()];
                let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut sent = SendAncillaryBuffer::new(&mut space);
                assert!(sent.push(SendAncillaryMessage::ScmRights(&fds)));
                if sendmsg(&inside, &[std::io::IoSlice::new(&frame)], &mut sent, SendFlags::empty()).is_err() {
                    break;
                }
            }
        });
        let said = converse(&ours, &order(), &FixedResponder(|_| None));
        worker.join().unwrap();
        assert!(matches!(said, Err(Broken::Gone | Broken::Forged(_))), "{said:?}");
    }
}
