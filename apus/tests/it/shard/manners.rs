//! What users meet at the command line: order of stages, wrong numbers, other jobs, damage.

use std::path::{Path, PathBuf};

use crate::join::source::{Files, VARIED};
use crate::support::program::{assert_contains, program};
use crate::support::{Place, change_file};

/// Runs `apus shard` with these arguments. Returns its exit status, standard output and error.
fn shard(args: &[&str]) -> (Option<i32>, String, String) {
    let output = program().arg("shard").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn planned(place: &Place) -> String {
    let source = VARIED.write(place, Files::InOrder);
    let job = place.root().join("job").to_str().unwrap().to_string();
    let cuts = ["--spans", "2", "--partitions", "2", "--buckets", "2", "--assumevalid", "0"];
    let from = ["plan", "--regtest", "--job", &job, "--from", source.to_str().unwrap()];
    let (status, out, err) = shard(&[&from[..], &cuts].concat());
    assert_eq!(status, Some(0), "{err}");
    assert!(out.starts_with("2 spans to read, 2 partitions to match, 2 buckets to check"), "{out}");
    job
}

/// The result of a task whose file's name begins so.
fn result_of(job: &str, start: &str) -> PathBuf {
    let mut paths = std::fs::read_dir(job).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(start) && !name.ends_with(".done")
    };
    paths.find(is_it).unwrap()
}

/// Panics unless the command fails and says all this.
#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let (status, _, err) = shard(args);
    assert_eq!(status, Some(1), "{args:?}: {err}");
    assert_contains(&err, words);
}

#[test]
fn a_task_names_the_tasks_that_come_first() {
    let place = Place::new(apus_wire::Chain::Regtest);
    let job = planned(&place);
    let refuse = |args: &[&str], words: &[&str]| {
        let (status, _, err) = shard(args);
        assert_ne!(status, Some(0), "{args:?}");
        assert!(words.iter().all(|word| err.contains(word)), "{args:?}: {err}");
    };
    refuse(&["match", "--job", &job, "--partition", "0"], &["shard read", "--span 0"]);
    refuse(&["read", "--job", &job, "--span", "2"], &["the job has 2, numbered from 0"]);
    refuse(&["finish", "--job", &job], &["come first: 2"]);
    refuse(&["read", "--job", "/nowhere", "--span", "0"], &["/nowhere", "apus shard plan"]);
    refuse(&["read", "--job", "s3://bucket/job", "--span", "0"], &["s3://bucket/job"]);
    let (_, todo, _) = shard(&["todo", "--job", &job]);
    assert_eq!(todo, "read 0 1\n");
    let read = ["read", "--job", &job, "--span", "1"];
    assert_eq!(shard(&read), (Some(0), "read 1: done\n".into(), String::new()));
    assert_eq!(shard(&read).1, "read 1: done before\n");
    let (_, todo, _) = shard(&["todo", "--job", &job, "--json"]);
    assert!(todo.starts_with(r#"{"stage":"read","numbers":[0],"end_height":"#), "{todo}");
    let (status, _, err) = shard(&["run", "--job", &job, "--quiet"]);
    assert_eq!(status, Some(0), "{err}");
    let (status, out, _) = shard(&["finish", "--job", &job, "--json"]);
    assert_eq!(status, Some(0));
    assert!(out.contains(&format!(r#""bestblock":"{}""#, VARIED.tip())), "{out}");
    refuse(&["plan", "--regtest", "--job", &job, "--from", "x"], &["holds a job already"]);
}

#[test]
fn a_result_of_another_job_or_with_damage_is_named() {
    let [place, other] = [(); 2].map(|()| Place::new(apus_wire::Chain::Regtest));
    let job = planned(&place);
    let others = planned(&other);
    for job in [&job, &others] {
        for span in ["0", "1"] {
            shard(&["read", "--job", job, "--span", span]);
        }
    }
    let ours = result_of(&job, "read-00000-");
    let name = ours.file_name().unwrap().to_str().unwrap();
    let theirs = Path::new(&others).join(name);
    let done = |path: &Path| path.with_file_name(format!("{name}.done"));
    let kept = std::fs::read(done(&ours)).unwrap();
    std::fs::copy(done(&theirs), done(&ours)).unwrap();
    let matching = ["match", "--job", &job, "--partition", "0"];
    refused(&matching, &[&format!("{name}.done"), "another job"]);
    std::fs::write(done(&ours), kept).unwrap();
    change_file(&ours, |bytes| bytes[20] ^= 1);
    let again = ["read", "--job", &job, "--span", "0", "--again"];
    let remedy = format!("write it again: `apus shard {}`", again.join(" "));
    refused(&matching, &[name, "damaged", &remedy]);
    assert_eq!(shard(&again).1, "read 0: done\n");
    assert_eq!(shard(&matching).1, "match 0: done\n");
}

/// Every kind of damage to every kind of result is named with the command that mends it, or is
/// found by `todo`, which then names the task.
#[test]
fn what_is_damaged_is_written_again() {
    let place = Place::new(apus_wire::Chain::Regtest);
    let job = planned(&place);
    shard(&["run", "--job", &job, "--quiet"]);
    let todo = || shard(&["todo", "--job", &job]).1;
    assert_eq!(todo(), "finish \n");
    let whole = shard(&["finish", "--job", &job, "--json"]).1;
    let datadir = place.root().join("new");
    let finish = ["finish", "--job", &job, "--datadir", datadir.to_str().unwrap(), "--json"];
    for (stage, option) in [("read", "--span"), ("match", "--partition"), ("check", "--bucket")] {
        let data = result_of(&job, &format!("{stage}-00000-"));
        let done = PathBuf::from(format!("{}.done", data.display()));
        let kept = std::fs::read(&done).unwrap();
        // Its index: cut off, changed, empty.
        let mut changed = kept.clone();
        changed[30] ^= 1;
        for damaged in [&kept[..kept.len() / 2], &changed, &[]] {
            std::fs::write(&done, damaged).unwrap();
            assert_eq!(todo(), format!("{stage} 0\n"));
            let args = [stage, "--job", &job, option, "0"];
            assert_eq!(shard(&args).1, format!("{stage} 0: done\n"));
            assert_eq!(std::fs::read(&done).unwrap(), kept);
        }
        // Its bytes: the task that reads them names the one that wrote them.
        let bytes = std::fs::read(&data).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let again = ["--job", &job, option, "0", "--again"];
        let words = format!("`apus shard {stage} {}`", again.join(" "));
        let readers: Vec<Vec<&str>> = match stage {
            "read" => ["0", "1"]
                .map(|number| vec!["match", "--job", &job, "--partition", number, "--again"])
                .to_vec(),
            _ => vec![finish.to_vec()],
        };
        let is_named = || readers.iter().any(|reader| shard(reader).2.contains(&words));
        for cut in [bytes.len() / 2, 0] {
            std::fs::write(&data, &bytes[..cut]).unwrap();
            assert!(is_named(), "{stage} {cut}: {words}");
        }
        std::fs::remove_file(&data).unwrap();
        assert!(is_named(), "{stage}: {words}");
        assert_eq!(shard(&[&[stage], &again[..]].concat()).1, format!("{stage} 0: done\n"));
        assert_eq!(std::fs::read(&data).unwrap(), bytes);
    }
    assert_eq!(shard(&finish).1, whole);
    // The plan itself cannot be made again.
    let plan = Path::new(&job).join("job.done");
    std::fs::write(&plan, b"cut off").unwrap();
    refused(&["todo", "--job", &job], &["the job is damaged"]);
}

/// The loop of the guide ends with what is wrong, whatever fails.
#[test]
fn the_loop_of_the_guide_ends() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let guide = std::fs::read_to_string(root.join("docs/guide/many-machines.md")).unwrap();
    let code = guide.split("```").find(|block| block.contains("xargs")).unwrap();
    let place = Place::new(apus_wire::Chain::Regtest);
    let job = planned(&place);
    let bin = program().get_program().to_owned();
    let bin = Path::new(&bin).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let run = |directory: &Path| {
        // The limit is for a loop that does not end.
        let mut bash = std::process::Command::new("timeout");
        bash.args(["60", "bash", "-c", code]).env("PATH", &path).current_dir(directory);
        let output = bash.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    };
    let empty = place.root().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let (status, said) = run(&empty);
    assert!(status == Some(1) && said.contains("holds no job"), "{said}");
    // A result that a task needs is cut off.
    shard(&["read", "--job", &job, "--span", "0"]);
    shard(&["read", "--job", &job, "--span", "1"]);
    std::fs::write(result_of(&job, "read-00001-"), b"").unwrap();
    let (status, said) = run(place.root());
    assert_eq!(status, Some(1), "{said}");
    assert_contains(&said, &["--span 1 --again`", "tasks without a result that come first: "]);
    assert_eq!(shard(&["read", "--job", &job, "--span", "1", "--again"]).0, Some(0));
    let (status, said) = run(place.root());
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_block_that_has_changed_is_named_with_its_place() {
    let place = Place::new(apus_wire::Chain::Regtest);
    let job = planned(&place);
    let path = place.root().join("blocks");
    shard(&["run", "--job", &job, "--quiet"]);
    change_file(&path, |bytes| *bytes.iter_mut().nth_back(4).unwrap() ^= 1);
    let datadir = place.root().join("new");
    let finish = ["finish", "--job", &job, "--datadir", datadir.to_str().unwrap()];
    refused(&finish, &[path.to_str().unwrap(), "no longer the one"]);
}

#[test]
fn a_task_that_runs_again_writes_the_same_or_is_named() {
    let place = Place::new(apus_wire::Chain::Regtest);
    let job = planned(&place);
    let args = |task: [&'static str; 3]| {
        let [stage, option, number] = task;
        [stage, "--job", &job, option, number, "--compare"]
    };
    refused(&args(["read", "--span", "0"]), &["read 0 has no result to compare with"]);
    shard(&["run", "--job", &job, "--quiet"]);
    let files = || {
        let mut files: Vec<_> = std::fs::read_dir(&job).unwrap().map(|f| f.unwrap()).collect();
        files.sort_by_key(|file| file.file_name());
        files.into_iter().map(|f| (f.path(), f.metadata().unwrap().modified().unwrap()))
    };
    let before: Vec<_> = files().collect();
    let tasks = [["read", "--span"], ["match", "--partition"], ["check", "--bucket"]];
    for [stage, option] in tasks {
        for number in ["0", "1"] {
            let same = format!("{stage} {number}: the same in another run\n");
            assert_eq!(shard(&args([stage, option, number])), (Some(0), same, String::new()));
        }
    }
    assert!(files().eq(before.iter().cloned()), "nothing is written");
    // A worker that lies is not found by checksums, which it writes itself.
    for [stage, option] in tasks {
        let path = result_of(&job, &format!("{stage}-00001-"));
        let flip = || change_file(&path, |bytes| bytes[12] ^= 1);
        flip();
        let named = format!("{} at byte 12: another run", path.display());
        refused(&args([stage, option, "1"]), &[&named]);
        flip();
    }
    assert_eq!(shard(&["read", "--job", &job, "--span", "1", "--compare", "--again"]).0, Some(2));
}
