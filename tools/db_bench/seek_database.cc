// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/seek_database.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace varve {

namespace {

constexpr size_t kValueSourceBytes = size_t{1} << 20;

struct Key {
  explicit Key(uint64_t number) { WriteKey(number, sizeof(bytes), bytes); }
  Slice slice() const { return Slice(bytes, sizeof(bytes)); }

  char bytes[kSeekKeyBytes];
};

}  // namespace

KeyWriter::KeyWriter(Engine* engine, size_t value_bytes, uint64_t seed)
    : session_(engine->NewSession()),
      bytes_(CompressibleBytes(seed, 0.5,
                               std::max(kValueSourceBytes, value_bytes))),
      values_(bytes_, value_bytes),
      value_bytes_(value_bytes) {}

void KeyWriter::Commit(size_t bytes) {
  status_ = session_->Commit();
  user_bytes_ += bytes;
}

void KeyWriter::Put(uint64_t key) {
  if (!status_.ok()) return;
  session_->Put(Key(key).slice(), values_.Next());
  Commit(kSeekKeyBytes + value_bytes_);
}

void KeyWriter::Delete(uint64_t key) {
  if (!status_.ok()) return;
  session_->Delete(Key(key).slice());
  Commit(kSeekKeyBytes);
}

void KeyWriter::DeleteRange(uint64_t begin, uint64_t end) {
  if (!status_.ok()) return;
  if (session_->DeleteRange(Key(begin).slice(), Key(end).slice())) {
    Commit(2 * kSeekKeyBytes);
    return;
  }
  for (uint64_t key = begin; key < end; ++key) Delete(key);
}

uint64_t KeyReader::Found(bool valid) const {
  if (!valid || cursor_->key.size() != kSeekKeyBytes) return kNoKey;
  uint64_t number = 0;
  memcpy(&number, cursor_->key.data(), sizeof(number));
  return __builtin_bswap64(number);
}

uint64_t KeyReader::SeekToFirst() {
  cursor_->Renew();
  return Found(cursor_->SeekToFirst());
}

uint64_t KeyReader::SeekToLast() {
  cursor_->Renew();
  return Found(cursor_->SeekToLast());
}

uint64_t KeyReader::Seek(uint64_t key) {
  cursor_->Renew();
  return Found(cursor_->Seek(Key(key).slice()));
}

uint64_t KeyReader::Next() { return Found(cursor_->Next()); }

Status SeekDatabase::Create() {
  Close();
  status_ = engine_->Destroy(config_);
  std::error_code error;
  std::filesystem::create_directories(config_.path, error);
  if (error) Fail(Status::FromErrno(config_.path, error.value()));
  if (status_.ok()) status_ = watch_.Start(config_.path);
  if (status_.ok()) status_ = engine_->Open(config_);
  if (!status_.ok()) return status_;
  open_ = true;
  earlier_user_bytes_ = 0;
  writer_ = MakeWriter();
  return status_;
}

Status SeekDatabase::Destroy() {
  Close();
  Fail(engine_->Destroy(config_));
  std::error_code error;
  std::filesystem::remove_all(config_.path, error);
  return status_;
}

void SeekDatabase::Close() {
  if (!open_) return;
  if (writer_ != nullptr) Fail(writer_->status());
  writer_.reset();
  Fail(engine_->Close());
  watch_.Stop();
  open_ = false;
}

void SeekDatabase::PutLiveKeys(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) writer_->Put(kLiveKeys + i);
}

bool SeekDatabase::Flush() {
  const Status status = engine_->Flush();
  // Recovery writes the log's entries to tables.
  if (status.IsNotSupported()) return Reopen();
  Fail(status);
  return status.ok();
}

bool SeekDatabase::Reopen() {
  earlier_user_bytes_ = user_bytes();
  Fail(writer_->status());
  writer_.reset();
  Fail(engine_->Close());
  const Status status = engine_->Open(config_);
  Fail(status);
  open_ = status.ok();
  if (open_) writer_ = MakeWriter();
  return open_;
}

uint64_t SeekDatabase::user_bytes() const {
  return earlier_user_bytes_ + (writer_ == nullptr ? 0 : writer_->user_bytes());
}

void SeekDatabase::Compact() { Fail(engine_->Compact()); }

Status SeekDatabase::status() const {
  if (!status_.ok() || writer_ == nullptr) return status_;
  return writer_->status();
}

LoadThread::LoadThread(SeekDatabase* database, uint64_t live_keys,
                       uint64_t puts_per_second)
    : database_(database), writer_(database->MakeWriter()) {
  thread_ = std::thread([this, live_keys, puts_per_second] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    Random random(live_keys);
    // relaxed: a put more or less does no harm.
    for (uint64_t i = 0; !stop_.load(std::memory_order_relaxed); ++i) {
      writer_->Put(kLiveKeys + random.Uniform(live_keys));
      const auto due = std::chrono::duration<double>(
          static_cast<double>(i) / static_cast<double>(puts_per_second));
      // relaxed: as above.
      while (Clock::now() - start < due &&
             !stop_.load(std::memory_order_relaxed)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });
}

uint64_t LoadThread::Stop() {
  if (thread_.joinable()) {
    // relaxed: the thread is joined.
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    database_->Fail(writer_->status());
  }
  return writer_->user_bytes();
}

}  // namespace varve
