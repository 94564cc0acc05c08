//! A clock that is wrong shows by the clocks of peers.

use std::sync::{Arc, Condvar, Mutex};

use apus_net::Outgoing;
use apus_progress::Method;
use apus_testpeer::{Answers, Hangup, Honest, Server};
use apus_wire::message::{Command, Message, Services, Version};

use super::world::{Told, assert_as_from_files, chain, world};

/// How many peers we have completed the handshake with.
type Greeted = Arc<(Mutex<usize>, Condvar)>;

/// An honest peer of another time, who sends blocks once `n` peers were greeted.
struct OfAnotherTime {
    honest: Honest,
    ahead: i64,
    greeted: Greeted,
    peers: usize,
}

impl Answers for OfAnotherTime {
    fn answer(&mut self, message: &Message, out: &mut Vec<Outgoing>) -> Result<(), Hangup> {
        let (count, more) = &*self.greeted;
        match message {
            Message::Version(theirs) => {
                out.push(Outgoing::new(&Version {
                    version: 70_016,
                    services: Services::NETWORK.with(Services::WITNESS),
                    time: theirs.time + self.ahead,
                    receiver: [0; 26],
                    nonce: 7,
                    user_agent: b"/other/",
                    start_height: 0,
                    relay: false,
                }));
                out.push(Outgoing::empty(Command::VERACK));
                return Ok(());
            }
            // This is what follows a handshake.
            Message::GetAddr => {
                *count.lock().unwrap() += 1;
                more.notify_all();
            }
            Message::GetData(_) => {
                let are_few = |greeted: &mut usize| *greeted < self.peers;
                drop(more.wait_while(count.lock().unwrap(), are_few).unwrap());
            }
            _ => {}
        }
        self.honest.answer(message, out)
    }
}

/// A sync from peers whose clocks are `n` seconds ahead of ours.
fn sync_with(ahead: &[i64]) -> Told {
    let greeted = Greeted::default();
    let peers = ahead.len();
    let server = |ahead: &i64| {
        let ahead = *ahead;
        let greeted = Arc::clone(&greeted);
        let begin = move || -> Box<dyn Answers> {
            let honest = Honest::new(chain());
            let greeted = Arc::clone(&greeted);
            Box::new(OfAnotherTime { honest, ahead, greeted, peers })
        };
        Server::start(world().place().network.magic, true, begin).unwrap()
    };
    let servers: Vec<Server> = ahead.iter().map(server).collect();
    assert_as_from_files(Method::InOrder, &servers.iter().collect::<Vec<_>>())
}

#[test]
fn five_peers_say_that_our_clock_is_wrong() {
    let wrong = sync_with(&[3630, 3630, 3630, 0, 0]);
    assert_eq!(wrong.count("The clock of this computer is"), 1);
    wrong.assert_has(&["60 minutes behind the clocks of its peers", "correct it"]);
}
