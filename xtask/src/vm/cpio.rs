//! The guest's first file system: an archive in the "newc" form of cpio, which the kernel unpacks
//! into memory.

/// An archive that grows file by file.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

impl Archive {
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, (0, 0), &[]);
    }

    /// A file that may be run, too.
    pub(super) fn file(&mut self, name: &str, contents: &[u8]) {
        self.entry(name, PROGRAM, (0, 0), contents);
    }

    /// A character device.
    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, DEVICE, (major, minor), &[]);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), contents: &[u8]) {
        self.files += 1;
        let length = u32::try_from(contents.len()).expect("no file of the guest has 4 GiB");
        let name_length = u32::try_from(name.len() + 1).expect("names are short");
        // inode, mode, owner, group, links, time, length, device of the file (2), device (2),
        // length of the name, check
        let fields = [self.files, mode, 0, 0, 1, 0, length, 0, 0, major, minor, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(contents);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_lengths_in_the_header_and_begin_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.file("bin/a", b"12345");
        let bytes = archive.finish();
        let text = String::from_utf8(bytes).unwrap();
        let starts: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|at| at % 4 == 0));
        let file = &text[starts[1]..];
        assert_eq!(&file[6 + 6 * 8..6 + 7 * 8], "00000005");
        assert_eq!(&file[110..116], "bin/a\0");
        assert_eq!(&file[116..121], "12345");
        assert!(text[starts[2] + 110..].starts_with("TRAILER!!!\0"));
    }
}
