//! Writes a database that LevelDB, and so Bitcoin Core, opens as its own, and reads it back.
//!
//! `cargo run -p apus-leveldb --example table`

use std::error::Error;

use apus_disk::Disk;
use apus_leveldb::{Db, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options { create_if_missing: true, ..Options::default() };
    let db = Db::open(Disk::new(), dir.path(), options)?;
    // A batch arrives sorted, and is durable as a whole when `apply` returns.
    let names = ["alpha", "beta", "gamma"];
    db.apply(names.iter().map(|name| (name, Some(name.to_uppercase()))))?;
    db.apply([("beta", None::<&str>)])?;
    assert_eq!(db.get(b"alpha")?, Some(b"ALPHA".to_vec()));
    assert_eq!(db.get(b"beta")?, None);
    let mut cursor = db.scan(b"", None)?;
    while let Some((key, value)) = cursor.next_entry()? {
        println!("{}: {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
