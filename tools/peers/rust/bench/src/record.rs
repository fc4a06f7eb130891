// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! An engine that stores nothing and notes the operations it is asked for, to
//! be compared with those of db_bench.

use std::fmt::Write;
use std::sync::Mutex;

use crate::engine::{Config, Engine, Entries, Result, Session};

/// How many operations of each session are noted.
const RECORDED: usize = 4;

#[derive(Default)]
pub struct Recorder {
    lines: Mutex<Vec<(usize, String)>>,
}

impl Recorder {
    /// Prints the operations since the last call.
    pub fn print(&self, benchmark: &str) {
        let mut lines = std::mem::take(&mut *self.lines.lock().unwrap());
        lines.sort_by_key(|(number, _)| *number);
        for (number, line) in lines {
            println!("{benchmark} {number} {line}");
        }
    }
}

impl Engine for Recorder {
    fn remarks(&self) -> String {
        String::new()
    }
    fn open(&mut self, _: &Config) -> Result<()> {
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn session(&self, number: usize) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(Recording { recorder: self, number, noted: 0 }))
    }
}

struct Recording<'a> {
    recorder: &'a Recorder,
    number: usize,
    noted: usize,
}

impl Recording<'_> {
    fn note(&mut self, operation: &str, key: &[u8], value: Option<&[u8]>) {
        if self.noted == RECORDED {
            return;
        }
        self.noted += 1;
        let mut line = format!("{operation} ");
        for byte in key {
            write!(line, "{byte:02x}").unwrap();
        }
        if let Some(value) = value {
            // FNV-1a.
            let mut hash = 0xcbf2_9ce4_8422_2325u64;
            for byte in value {
                hash ^= u64::from(*byte);
                hash = hash.wrapping_mul(0x0100_0000_01b3);
            }
            write!(line, " {hash:016x}").unwrap();
        }
        self.recorder.lines.lock().unwrap().push((self.number, line));
    }
}

impl Session for Recording<'_> {
    fn put_one(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.note("put", key, Some(value));
        Ok(())
    }
    fn put_all(&mut self, entries: &Entries) -> Result<()> {
        for (key, value) in entries.iter() {
            self.note("put", key, Some(value));
        }
        Ok(())
    }
    fn get(&mut self, key: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.note("get", key, None);
        Ok(())
    }
    fn seek(
        &mut self,
        key: Option<&[u8]>,
        _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.note("seek", key.unwrap_or_default(), None);
        Ok(())
    }
}
