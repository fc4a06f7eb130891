// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! What an adapter implements.

use std::error::Error;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The settings of an engine. An engine uses those that it has.
#[derive(Clone)]
pub struct Config {
    pub path: String,
    /// The approximate data to be stored.
    pub entries: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Compress blocks with the engine's fast codec.
    pub compress: bool,
    pub cache_bytes: u64,
    pub block_bytes: u32,
    /// Below 1 there is no filter.
    pub bloom_bits: i32,
    pub write_buffer_bytes: u64,
    pub background_jobs: usize,
    pub threads: usize,
    /// Syncs every write.
    pub sync: bool,
}

/// A storage engine, once open safe for use by several threads.
pub trait Engine: Sync {
    /// Returns the durability of an unsynced write, and the settings that the
    /// engine does not have.
    fn remarks(&self) -> String;
    fn open(&mut self, config: &Config) -> Result<()>;
    fn close(&mut self) -> Result<()>;
    /// Returns the access of one thread, which is the `number`th.
    fn session(&self, number: usize) -> Result<Box<dyn Session + '_>>;
    /// Compacts the whole database. Returns false if the engine has no such
    /// operation.
    fn compact(&self) -> Result<bool> {
        Ok(false)
    }
}

/// The access of one thread.
pub trait Session {
    /// Writes one entry.
    fn put_one(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Writes all entries atomically.
    fn put_all(&mut self, entries: &Entries) -> Result<()>;
    /// Calls `found` with the value, if there is one.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Looks up all keys in one view of the database.
    fn get_each(
        &mut self,
        keys: &[Vec<u8>],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        for key in keys {
            self.get(key, found)?;
        }
        Ok(())
    }
    /// Makes an iterator, moves it to the first entry at or after the key
    /// (None: to the first entry), and calls `each` with the entries from there
    /// until it returns false or the data ends.
    fn seek(
        &mut self,
        key: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;
}

/// Entries to be written together.
pub struct Entries<'a> {
    key_bytes: usize,
    keys: Vec<u8>,
    values: Vec<&'a [u8]>,
}

impl<'a> Entries<'a> {
    pub fn new(key_bytes: usize) -> Self {
        Entries { key_bytes, keys: Vec::new(), values: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    pub fn push(&mut self, key: &[u8], value: &'a [u8]) {
        self.keys.extend_from_slice(key);
        self.values.push(value);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let keys = self.keys.chunks_exact(self.key_bytes);
        keys.zip(self.values.iter().copied())
    }
}
