/// A program that compresses files, and how its files are made readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// What the program is called.
    pub name: &'static str,
    /// The command that unpacks a file and keeps it.
    pub command: &'static str,
}

/// First bytes of compressed files, by their formats' documents.
const PACKERS: [(&[u8], Packed); 5] = [
    (&[0x1f, 0x8b], Packed { name: "gzip", command: "gunzip -k" }),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packed { name: "xz", command: "unxz -k" }),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packed { name: "zstd", command: "unzstd" }),
    (b"BZh", Packed { name: "bzip2", command: "bunzip2 -k" }),
    (b"PK\x03\x04", Packed { name: "zip", command: "unzip" }),
];

/// The program that has compressed a file which begins with `bytes`, if one has.
pub fn packed(bytes: &[u8]) -> Option<Packed> {
    PACKERS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, packed)| *packed)
}

impl Packed {
    /// What to do with such a file, in words for the user.
    pub fn advice(self) -> String {
        format!(
            "this file is compressed with {}: unpack it (`{} FILE`) and give the unpacked file",
            self.name, self.command
        )
    }
}
