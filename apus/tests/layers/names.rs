//! Commands that install something by its name take only names that are ours (docs/names.md).

use std::fs;
use std::path::Path;

use super::{manifest, workspace_root};

/// What comes before the names of packages that a registry is asked for.
const INSTALLERS: [&str; 13] = [
    "pip install",
    "pip3 install",
    "pipx install",
    "pip download",
    "uv add",
    "uv tool install",
    "pip:",
    "cargo install",
    "cargo add",
    "apt install",
    "apt-get install",
    "brew install",
    "npm install",
];

const ROOTS: [&str; 13] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Makefile",
    "docs",
    "contrib",
    "python",
    "scripts",
    "crates",
    "apus/src",
    "apus/Cargo.toml",
    "export",
    "bench",
];

/// Installs the package of a repository that it makes itself.
const FROM_A_REPOSITORY_OF_ITS_OWN: &str = "scripts/deb-test.sh";

/// A row of the table in docs/names.md.
struct Registry {
    name: String,
    names: Vec<String>,
    is_published: bool,
}

fn registries() -> Vec<Registry> {
    let text = manifest("docs/names.md");
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, names, _, published] = cells[..] else { panic!("{row}") };
        let quoted = names.split('`').skip(1).step_by(2).map(str::to_string);
        Registry {
            name: name.to_string(),
            names: quoted.collect(),
            is_published: published == "yes",
        }
    })
    .collect()
}

/// Returns the words of a line that an installer takes for names in a registry, and that may be
/// meant for us.
fn names_for_us(line: &str) -> Vec<String> {
    let Some(at) =
        INSTALLERS.iter().filter_map(|words| Some(line.find(words)? + words.len())).min()
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut before = "";
    for word in line[at..].split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '*' && c != '/');
        let is_file = bare.contains(['/', '*']) || bare.contains(".whl") || bare.contains(".deb");
        let is_value = ["--path", "-p"].contains(&before);
        let end = bare.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let name = bare[..end.unwrap_or(bare.len())].to_lowercase().replace('_', "-");
        let is_ours = name == "apus" || name.starts_with("apus-") || name.starts_with("secp-lanes");
        if is_ours && !is_file && !is_value {
            found.push(name);
        }
        before = word;
    }
    found
}

fn lines_of(path: &Path, see: &mut impl FnMut(&Path, usize, &str)) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                lines_of(&path, see);
            }
        }
    } else if let Ok(text) = fs::read_to_string(path) {
        text.lines().enumerate().for_each(|(at, line)| see(path, at + 1, line));
    }
}

#[test]
fn what_is_installed_by_name_is_ours() {
    let published: Vec<String> = registries()
        .into_iter()
        .filter(|registry| registry.is_published)
        .flat_map(|registry| registry.names)
        .collect();
    let mut wrong = Vec::new();
    let mut commands = 0;
    for root in ROOTS {
        let root = workspace_root().join(root);
        assert!(root.exists(), "{}", root.display());
        lines_of(&root, &mut |path, number, line| {
            commands += usize::from(INSTALLERS.iter().any(|words| line.contains(words)));
            let is_own = path.ends_with(FROM_A_REPOSITORY_OF_ITS_OWN);
            for name in names_for_us(line) {
                if !published.contains(&name) && !is_own {
                    wrong.push(format!("{}:{number}: {}", path.display(), line.trim()));
                }
            }
        });
    }
    assert!(commands > 10, "only {commands} commands are found");
    assert!(wrong.is_empty(), "names of others (docs/names.md):\n{}", wrong.join("\n"));
}

/// The test finds the commands that it is for.
#[test]
fn names_are_told_from_files() {
    for (line, names) in [
        ("pip install 'apus[ray]'", &["apus"][..]),
        ("  - ~/x/bin/pip install --quiet 'apus[ray]'", &["apus"]),
        ("    pip: [apus]", &["apus"]),
        ("raise ImportError(\"pip install apus[ray]\")", &["apus"]),
        ("pip install -U Apus_Bitcoin==0.1", &["apus-bitcoin"]),
        ("(`cargo install apus`)", &["apus"]),
        ("sudo apt install apus", &["apus"]),
        ("sudo apt install ./apus_*.deb", &[]),
        ("cargo install --locked --path apus", &[]),
        ("pip install target/wheels/apus_bitcoin-*.whl 'ray[data]>=2.40'", &[]),
        ("pip: [/shared/apus_bitcoin-0.1.0-cp39-abi3-linux_x86_64.whl]", &[]),
        ("pip install tqdm", &[]),
    ] {
        assert_eq!(names_for_us(line), names, "{line}");
    }
}

#[test]
fn packages_have_the_names_that_are_listed() {
    let listed = registries();
    let of = |registry: &str| {
        &listed.iter().find(|listed| listed.name.starts_with(registry)).unwrap().names
    };
    let python = manifest("python/pyproject.toml");
    assert!(python.contains(&format!("\nname = \"{}\"\n", of("PyPI")[0])), "{:?}", of("PyPI"));
    assert!(manifest("apus/Cargo.toml").contains("\nname = \"apus\"\n"));
    assert_eq!(of("crates.io")[..], ["apus", "apus-*", "secp-lanes"]);
    assert_eq!(of("Debian")[..], ["apus"]);
}
