use std::process::Command;

use serde_json::{Value, json};

/// Returns what is needed to compare figures with another machine's, as JSON: processor, cores,
/// memory, system, load when the benchmark began, date (UTC) and commit.
pub fn facts() -> Value {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_string());
    let kib = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "cpu": cpu,
        "cores": cores(),
        "sha_ni": field("/proc/cpuinfo", "flags").is_some_and(|flags| flags.contains("sha_ni")),
        "ram_bytes": kib.unwrap_or(0) << 10,
        "system": format!("{} {}", std::env::consts::OS, release.trim()),
        "load_before": load.split(' ').next().and_then(|n| n.parse::<f64>().ok()),
        "date": date(),
        "commit": commit(),
    })
}

/// Returns the result of [`facts`] in one line.
pub fn line(facts: &Value) -> String {
    let text = |key: &str| facts[key].as_str().unwrap_or("?").to_string();
    format!(
        "{}, {} cores{}, {:.0} GiB; {}; load {}; {}; commit {}",
        text("cpu"),
        facts["cores"],
        if facts["sha_ni"] == true { " with SHA-NI" } else { "" },
        facts["ram_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 30),
        text("system"),
        facts["load_before"],
        text("date"),
        text("commit"),
    )
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns today's date in the form 2025-11-20.
fn date() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().into())
}

/// Returns the commit that is checked out, and whether the sources differ from it.
fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(hash) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "none".to_string() };
    match git(&["status", "--porcelain", "--", "*.rs", "*.toml"]) {
        Some(changes) if changes.is_empty() => hash,
        _ => format!("{hash} with changes"),
    }
}

/// Returns the text after `name` and a colon, in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}
