//! A directory that another program has open: every command says so before it writes anything, and
//! names the program.

use apus_disk::Disk;
use apus_wire::Chain;

use crate::support::Place;
use crate::support::commands::{self, Does};
use crate::support::ports::free_port;
use crate::support::program::{apus, assert_ends, program_on, stderr};
use crate::support::swift::{World, small_chain};
use crate::support::tree::tree;

/// What a run has beside its directory: files with blocks and a snapshot, and a free port.
struct Given {
    blocks: String,
    rpcport: String,
}

fn commands(given: &Given) -> Vec<Vec<&str>> {
    let Given { blocks, rpcport } = given;
    let mut all = vec![
        vec!["sync", "--from", blocks],
        vec!["sync", "--connect=0"],
        vec!["sync", "--server", rpcport, "--connect=0"],
        vec!["sync", "--follow", "--connect=127.0.0.1:1"],
        vec!["sync", "--connect=0", "--debuglogfile=other.log"],
        vec!["sync", "--connect=0", "--prune=550"],
        vec!["reindex", "--index"],
        vec!["snapshot", "load", blocks, "--from", blocks],
        vec!["serve", "--server=0", "--port=0"],
    ];
    all.extend(commands::that(&[Does::Reads, Does::Serves, Does::Changes]));
    // It says who has the directory open, and what it can.
    all.retain(|command| command[0] != "status");
    all
}

#[test]
fn a_directory_in_use_stays_as_it_is() {
    let world = World::of(&small_chain(44, 12, 2_000));
    let place = world.in_order();
    let dir = place.network_dir();
    for (name, text) in [(".cookie", "__cookie__:of another"), ("debug.log", "one line\n")] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let blocks = place.write("more", &world.blocks).display().to_string();
    let given = Given { blocks, rpcport: format!("--rpcport={}", free_port()) };
    let words = format!("(process {})", std::process::id());
    for locked in [dir.clone(), dir.join("blocks")] {
        let lock = Disk::new().lock(locked.join(".lock")).unwrap();
        let before = tree(place.root());
        for command in commands(&given) {
            let output = program_on(&place, &command).current_dir(place.root()).output().unwrap();
            assert_ends(&output, 1, &["cannot obtain a lock", &words]);
            let text = stderr(&output);
            assert!(!text.contains("cookie") && !text.contains("rpcport"), "{command:?}: {text}");
            assert!(tree(place.root()) == before, "{command:?} changed something");
        }
        drop(lock);
    }
}

#[test]
fn a_new_directory_is_not_made_beside_blocks_in_use() {
    let place = Place::new(Chain::Regtest);
    let disk = Disk::new();
    let blocks = place.root().join("elsewhere");
    let locked = blocks.join("regtest/blocks");
    std::fs::create_dir_all(&locked).unwrap();
    let lock = disk.lock(locked.join(".lock")).unwrap();
    let before = tree(place.root());
    let option = format!("--blocksdir={}", blocks.display());
    let refused = apus(&place, &["sync", "--connect=0", &option]);
    assert_ends(&refused, 1, &["cannot obtain a lock", "elsewhere/regtest/blocks"]);
    assert_eq!(tree(place.root()), before);
    drop(lock);
}

#[test]
fn a_directory_that_does_not_exist_is_not_served() {
    let place = Place::new(Chain::Regtest);
    let mut command = program_on(&place, &["serve"]);
    let output = command.output().unwrap();
    assert_ends(&output, 1, &["there is no such directory"]);
    assert!(!stderr(&output).contains("cookie"), "{}", stderr(&output));
}
