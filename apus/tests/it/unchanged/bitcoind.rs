//! The same with a real bitcoind: where it started before a refused command, it starts afterwards,
//! at the same tip.

use super::damages::DAMAGES;
use super::surroundings::Surroundings;
use super::{copy_of_whole, removing, run, tried, usable};
use crate::bitcoind::daemon::{Daemon, program_in};

/// Damage with which bitcoind starts: it reads the last blocks alone.
const FAR_DOWN: [&str; 5] = [
    "a block file cut",
    "a bit of the first block file",
    "zeros in a block file",
    "an undo file missing",
    "a bit of an undo file",
];

#[test]
fn bitcoind_starts_after_a_refusal() {
    let Some(program) = program_in("BITCOIND") else { return };
    let commands =
        [tried(&["reindex", "--index"]), tried(&["reindex"]), removing(&["rewind", "--height=20"])];
    let mut refused = 0;
    for damage in DAMAGES.iter().filter(|damage| FAR_DOWN.contains(&damage.name)) {
        for tried in &commands {
            let place = copy_of_whole();
            (damage.apply)(&place);
            let before = usable(&place).unwrap();
            if run(&place, tried, Surroundings::Usual).status.success() {
                continue;
            }
            refused += 1;
            let daemon = Daemon::start(&program, &place, &["-fastprune", "-blockfilterindex=1"]);
            assert_eq!(
                daemon.ask(&["getbestblockhash"]),
                before.tip.to_string(),
                "{}",
                damage.name
            );
            daemon.stop();
        }
    }
    assert!(refused >= 6, "{refused} commands are refused");
}
