/// A program that compresses files, and the command that unpacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Name of the program.
    pub name: &'static str,
    /// The command that unpacks a file and keeps the packed one.
    pub command: &'static str,
}

/// The first bytes of the files of each program, from the documents of their formats.
const PACKERS: [(&[u8], Packed); 5] = [
    (&[0x1f, 0x8b], Packed { name: "gzip", command: "gunzip -k" }),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packed { name: "xz", command: "unxz -k" }),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packed { name: "zstd", command: "unzstd" }),
    (b"BZh", Packed { name: "bzip2", command: "bunzip2 -k" }),
    (b"PK\x03\x04", Packed { name: "zip", command: "unzip" }),
];

/// The program that compressed the file whose first bytes are given, if one did.
pub fn packed(bytes: &[u8]) -> Option<Packed> {
    PACKERS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, packed)| *packed)
}

impl Packed {
    /// Advice to the user who gave a compressed file.
    pub fn advice(self) -> String {
        format!(
            "this file is compressed with {}: unpack it (`{} FILE`) and give the unpacked file",
            self.name, self.command
        )
    }
}
