/// A compression program, and the command that unpacks its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Name of the program.
    pub name: &'static str,
    /// The command that unpacks a file and keeps the packed one.
    pub command: &'static str,
}

/// The first bytes of each program's files, from the specifications of the formats.
const PACKERS: [(&[u8], Packed); 5] = [
    (&[0x1f, 0x8b], Packed { name: "gzip", command: "gunzip -k" }),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packed { name: "xz", command: "unxz -k" }),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packed { name: "zstd", command: "unzstd" }),
    (b"BZh", Packed { name: "bzip2", command: "bunzip2 -k" }),
    (b"PK\x03\x04", Packed { name: "zip", command: "unzip" }),
];

/// Returns the program that compressed the file with these first bytes, if it is compressed.
pub fn packed(bytes: &[u8]) -> Option<Packed> {
    PACKERS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, packed)| *packed)
}

impl Packed {
    /// Returns advice for a user who gave a compressed file.
    pub fn advice(self) -> String {
        format!(
            "this file is compressed with {}: unpack it (`{} FILE`) and give the unpacked file",
            self.name, self.command
        )
    }
}
