// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Goal: compat/leveldb/abi.h declares the binary interface of LevelDB's
// headers. Method: both are included, ours with another name for its namespace,
// and their sizes, offsets and places in virtual tables are compared.
#include <gtest/gtest.h>
#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>
#include <leveldb/write_batch.h>

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#define leveldb varve_abi
#include "compat/leveldb/abi.h"
#undef leveldb

namespace {

// Returns the offset of a virtual function in the table, by the Itanium ABI: a
// pointer to a virtual member function is that offset plus one.
template <typename Function>
ptrdiff_t VirtualOffset(Function function) {
  ptrdiff_t words[2];
  static_assert(sizeof(words) == sizeof(function));
  memcpy(words, &function, sizeof(words));
  EXPECT_EQ(words[0] % 8, 1) << "not virtual";
  EXPECT_EQ(words[1], 0);
  return words[0] - 1;
}

#define SAME_VIRTUAL(Class, function)                   \
  EXPECT_EQ(VirtualOffset(&leveldb::Class::function),   \
            VirtualOffset(&varve_abi::Class::function)) \
      << #Class "::" #function
#define SAME_SIZE(Class)                                              \
  static_assert(sizeof(leveldb::Class) == sizeof(varve_abi::Class) && \
                alignof(leveldb::Class) == alignof(varve_abi::Class))
#define SAME_FIELD(Class, field)                                              \
  static_assert(                                                              \
      offsetof(leveldb::Class, field) == offsetof(varve_abi::Class, field) && \
      sizeof(leveldb::Class::field) == sizeof(varve_abi::Class::field))

SAME_SIZE(Slice);
SAME_SIZE(Status);
SAME_SIZE(Range);
SAME_SIZE(Options);
SAME_SIZE(ReadOptions);
SAME_SIZE(WriteOptions);
SAME_SIZE(Comparator);
SAME_SIZE(FilterPolicy);
SAME_SIZE(Cache);
SAME_SIZE(Cache::Handle);
SAME_SIZE(Env);
SAME_SIZE(EnvWrapper);
SAME_SIZE(SequentialFile);
SAME_SIZE(RandomAccessFile);
SAME_SIZE(WritableFile);
SAME_SIZE(Logger);
SAME_SIZE(FileLock);
SAME_SIZE(Iterator);
SAME_SIZE(WriteBatch);
SAME_SIZE(WriteBatch::Handler);
SAME_SIZE(Snapshot);
SAME_SIZE(DB);
SAME_SIZE(Table);
SAME_SIZE(TableBuilder);

SAME_FIELD(Range, start);
SAME_FIELD(Range, limit);
SAME_FIELD(Options, comparator);
SAME_FIELD(Options, create_if_missing);
SAME_FIELD(Options, error_if_exists);
SAME_FIELD(Options, paranoid_checks);
SAME_FIELD(Options, env);
SAME_FIELD(Options, info_log);
SAME_FIELD(Options, write_buffer_size);
SAME_FIELD(Options, max_open_files);
SAME_FIELD(Options, block_cache);
SAME_FIELD(Options, block_size);
SAME_FIELD(Options, block_restart_interval);
SAME_FIELD(Options, max_file_size);
SAME_FIELD(Options, compression);
SAME_FIELD(Options, reuse_logs);
SAME_FIELD(Options, filter_policy);
SAME_FIELD(ReadOptions, verify_checksums);
SAME_FIELD(ReadOptions, fill_cache);
SAME_FIELD(ReadOptions, snapshot);
SAME_FIELD(WriteOptions, sync);

// They decide how a value is passed and returned.
static_assert(std::is_trivially_copyable_v<leveldb::Slice> ==
              std::is_trivially_copyable_v<varve_abi::Slice>);
static_assert(std::is_trivially_copyable_v<leveldb::Status> ==
              std::is_trivially_copyable_v<varve_abi::Status>);

TEST(LevelDbLayoutTest, DatabasesHaveTheSameVirtualTables) {
  SAME_VIRTUAL(DB, Put);
  SAME_VIRTUAL(DB, Delete);
  SAME_VIRTUAL(DB, Write);
  SAME_VIRTUAL(DB, Get);
  SAME_VIRTUAL(DB, NewIterator);
  SAME_VIRTUAL(DB, GetSnapshot);
  SAME_VIRTUAL(DB, ReleaseSnapshot);
  SAME_VIRTUAL(DB, GetProperty);
  SAME_VIRTUAL(DB, GetApproximateSizes);
  SAME_VIRTUAL(DB, CompactRange);
  SAME_VIRTUAL(Iterator, Valid);
  SAME_VIRTUAL(Iterator, SeekToFirst);
  SAME_VIRTUAL(Iterator, SeekToLast);
  SAME_VIRTUAL(Iterator, Seek);
  SAME_VIRTUAL(Iterator, Next);
  SAME_VIRTUAL(Iterator, Prev);
  SAME_VIRTUAL(Iterator, key);
  SAME_VIRTUAL(Iterator, value);
  SAME_VIRTUAL(Iterator, status);
  SAME_VIRTUAL(WriteBatch::Handler, Put);
  SAME_VIRTUAL(WriteBatch::Handler, Delete);
}

TEST(LevelDbLayoutTest, ProgramsObjectsHaveTheSameVirtualTables) {
  SAME_VIRTUAL(Comparator, Compare);
  SAME_VIRTUAL(Comparator, Name);
  SAME_VIRTUAL(Comparator, FindShortestSeparator);
  SAME_VIRTUAL(Comparator, FindShortSuccessor);
  SAME_VIRTUAL(FilterPolicy, Name);
  SAME_VIRTUAL(FilterPolicy, CreateFilter);
  SAME_VIRTUAL(FilterPolicy, KeyMayMatch);
  SAME_VIRTUAL(Cache, Insert);
  SAME_VIRTUAL(Cache, Lookup);
  SAME_VIRTUAL(Cache, Release);
  SAME_VIRTUAL(Cache, Value);
  SAME_VIRTUAL(Cache, Erase);
  SAME_VIRTUAL(Cache, NewId);
  SAME_VIRTUAL(Cache, Prune);
  SAME_VIRTUAL(Cache, TotalCharge);
  SAME_VIRTUAL(Logger, Logv);
}

TEST(LevelDbLayoutTest, EnvironmentsHaveTheSameVirtualTables) {
  SAME_VIRTUAL(Env, NewSequentialFile);
  SAME_VIRTUAL(Env, NewRandomAccessFile);
  SAME_VIRTUAL(Env, NewWritableFile);
  SAME_VIRTUAL(Env, NewAppendableFile);
  SAME_VIRTUAL(Env, FileExists);
  SAME_VIRTUAL(Env, GetChildren);
  SAME_VIRTUAL(Env, RemoveFile);
  SAME_VIRTUAL(Env, DeleteFile);
  SAME_VIRTUAL(Env, CreateDir);
  SAME_VIRTUAL(Env, RemoveDir);
  SAME_VIRTUAL(Env, DeleteDir);
  SAME_VIRTUAL(Env, GetFileSize);
  SAME_VIRTUAL(Env, RenameFile);
  SAME_VIRTUAL(Env, LockFile);
  SAME_VIRTUAL(Env, UnlockFile);
  SAME_VIRTUAL(Env, Schedule);
  SAME_VIRTUAL(Env, StartThread);
  SAME_VIRTUAL(Env, GetTestDirectory);
  SAME_VIRTUAL(Env, NewLogger);
  SAME_VIRTUAL(Env, NowMicros);
  SAME_VIRTUAL(Env, SleepForMicroseconds);
  SAME_VIRTUAL(SequentialFile, Read);
  SAME_VIRTUAL(SequentialFile, Skip);
  SAME_VIRTUAL(RandomAccessFile, Read);
  SAME_VIRTUAL(WritableFile, Append);
  SAME_VIRTUAL(WritableFile, Close);
  SAME_VIRTUAL(WritableFile, Flush);
  SAME_VIRTUAL(WritableFile, Sync);
}

// The state of a status is read by inline functions that programs compiled in.
TEST(LevelDbLayoutTest, AStatusHasTheSameBytes) {
  const leveldb::Status theirs = leveldb::Status::IOError("message", "detail");
  const char* state;
  memcpy(&state, &theirs, sizeof(state));
  EXPECT_EQ(memcmp(state, "\x0f\0\0\0\x05message: detail", 20), 0);
}

// Their defaults are in an inline part of the constructor, or compiled in.
TEST(LevelDbLayoutTest, OptionsHaveTheSameDefaults) {
  const leveldb::ReadOptions theirs;
  const varve_abi::ReadOptions ours;
  EXPECT_EQ(theirs.verify_checksums, ours.verify_checksums);
  EXPECT_EQ(theirs.fill_cache, ours.fill_cache);
  EXPECT_FALSE(leveldb::WriteOptions().sync || varve_abi::WriteOptions().sync);
}

}  // namespace
