// Varve: a key-value storage engine. MIT licence, see LICENSE.

//! The part of RocksDB's C interface that is used.

use std::ffi::{c_char, c_int, c_uchar, c_void};

/// A pointer to an object of RocksDB.
pub type Object = *mut c_void;

#[link(name = "rocksdbjni-linux64")]
extern "C" {
    pub fn rocksdb_options_create() -> Object;
    pub fn rocksdb_options_destroy(options: Object);
    pub fn rocksdb_options_set_create_if_missing(options: Object, on: c_uchar);
    pub fn rocksdb_options_set_write_buffer_size(options: Object, size: usize);
    pub fn rocksdb_options_set_max_background_jobs(options: Object, n: c_int);
    pub fn rocksdb_options_set_compression(options: Object, codec: c_int);
    pub fn rocksdb_options_set_block_based_table_factory(
        options: Object,
        table: Object,
    );
    pub fn rocksdb_block_based_options_create() -> Object;
    pub fn rocksdb_block_based_options_destroy(table: Object);
    pub fn rocksdb_block_based_options_set_block_size(table: Object, n: usize);
    pub fn rocksdb_block_based_options_set_block_cache(
        table: Object,
        cache: Object,
    );
    pub fn rocksdb_block_based_options_set_filter_policy(
        table: Object,
        policy: Object,
    );
    pub fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> Object;
    pub fn rocksdb_cache_create_lru(capacity: usize) -> Object;
    pub fn rocksdb_cache_destroy(cache: Object);

    pub fn rocksdb_open(
        options: Object,
        path: *const c_char,
        error: *mut *mut c_char,
    ) -> Object;
    pub fn rocksdb_close(db: Object);
    pub fn rocksdb_free(memory: *mut c_void);
    pub fn rocksdb_compact_range(
        db: Object,
        begin: *const u8,
        begin_length: usize,
        end: *const u8,
        end_length: usize,
    );

    pub fn rocksdb_writeoptions_create() -> Object;
    pub fn rocksdb_writeoptions_destroy(options: Object);
    pub fn rocksdb_writeoptions_set_sync(options: Object, on: c_uchar);
    pub fn rocksdb_put(
        db: Object,
        options: Object,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_writebatch_create() -> Object;
    pub fn rocksdb_writebatch_destroy(batch: Object);
    pub fn rocksdb_writebatch_clear(batch: Object);
    pub fn rocksdb_writebatch_put(
        batch: Object,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
    );
    pub fn rocksdb_write(
        db: Object,
        options: Object,
        batch: Object,
        error: *mut *mut c_char,
    );

    pub fn rocksdb_readoptions_create() -> Object;
    pub fn rocksdb_readoptions_destroy(options: Object);
    pub fn rocksdb_get_pinned(
        db: Object,
        options: Object,
        key: *const u8,
        key_length: usize,
        error: *mut *mut c_char,
    ) -> Object;
    pub fn rocksdb_get_default_column_family_handle(db: Object) -> Object;
    pub fn rocksdb_column_family_handle_destroy(family: Object);
    pub fn rocksdb_batched_multi_get_cf(
        db: Object,
        options: Object,
        family: Object,
        count: usize,
        keys: *const *const u8,
        key_lengths: *const usize,
        values: *mut Object,
        errors: *mut *mut c_char,
        sorted: bool,
    );
    pub fn rocksdb_pinnableslice_value(
        slice: Object,
        length: *mut usize,
    ) -> *const u8;
    pub fn rocksdb_pinnableslice_destroy(slice: Object);

    pub fn rocksdb_create_iterator(db: Object, options: Object) -> Object;
    pub fn rocksdb_iter_destroy(iterator: Object);
    pub fn rocksdb_iter_seek_to_first(iterator: Object);
    pub fn rocksdb_iter_seek(iterator: Object, key: *const u8, length: usize);
    pub fn rocksdb_iter_valid(iterator: Object) -> c_uchar;
    pub fn rocksdb_iter_next(iterator: Object);
    pub fn rocksdb_iter_key(iterator: Object, length: *mut usize) -> *const u8;
    pub fn rocksdb_iter_value(
        iterator: Object,
        length: *mut usize,
    ) -> *const u8;
    pub fn rocksdb_iter_get_error(iterator: Object, error: *mut *mut c_char);
}
