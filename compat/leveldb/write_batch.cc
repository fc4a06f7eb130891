// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A batch is a header (a sequence number of 8 bytes, which only the engine
// uses, and a count of 4 bytes, both little-endian), then for each update a
// tag, the key and, for a put, the value. Keys and values have their lengths
// before them as varints.
#include "compat/leveldb/write_batch.h"

#include "compat/leveldb/coding.h"
#include "compat/leveldb/convert.h"

namespace leveldb {
namespace {

using varve::compat::AppendLengthPrefixed;
using varve::compat::Corruption;
using varve::compat::TakeLengthPrefixed;

constexpr size_t kCountOffset = 8;
constexpr size_t kHeaderBytes = 12;
constexpr char kDeleteTag = 0;
constexpr char kPutTag = 1;

uint32_t CountOf(const std::string& bytes) {
  uint32_t count;
  memcpy(&count, bytes.data() + kCountOffset, sizeof(count));
  return count;
}

void AddToCount(std::string* bytes, uint32_t more) {
  const uint32_t count = CountOf(*bytes) + more;
  memcpy(bytes->data() + kCountOffset, &count, sizeof(count));
}

}  // namespace

WriteBatch::WriteBatch() { Clear(); }
WriteBatch::~WriteBatch() = default;

void WriteBatch::Clear() { bytes_.assign(kHeaderBytes, '\0'); }
size_t WriteBatch::ApproximateSize() const { return bytes_.size(); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  AddToCount(&bytes_, 1);
  bytes_.push_back(kPutTag);
  AppendLengthPrefixed(&bytes_, key);
  AppendLengthPrefixed(&bytes_, value);
}

void WriteBatch::Delete(const Slice& key) {
  AddToCount(&bytes_, 1);
  bytes_.push_back(kDeleteTag);
  AppendLengthPrefixed(&bytes_, key);
}

void WriteBatch::Append(const WriteBatch& source) {
  AddToCount(&bytes_, CountOf(source.bytes_));
  const size_t more = source.bytes_.size() - kHeaderBytes;
  // The source may be this batch, whose bytes move when it grows.
  bytes_.reserve(bytes_.size() + more);
  bytes_.append(source.bytes_.data() + kHeaderBytes, more);
}

Status WriteBatch::Iterate(Handler* handler) const {
  Slice rest(bytes_);
  if (rest.size() < kHeaderBytes) return Corruption("the batch has no header");
  rest = Slice(rest.data() + kHeaderBytes, rest.size() - kHeaderBytes);
  uint32_t found = 0;
  for (; !rest.empty(); ++found) {
    const char tag = *rest.data();
    rest = Slice(rest.data() + 1, rest.size() - 1);
    Slice key;
    Slice value;
    if (tag != kPutTag && tag != kDeleteTag) {
      return Corruption("the batch has an unknown kind of update");
    }
    if (!TakeLengthPrefixed(&rest, &key) ||
        (tag == kPutTag && !TakeLengthPrefixed(&rest, &value))) {
      return Corruption("the batch has a damaged update");
    }
    if (tag == kPutTag) {
      handler->Put(key, value);
    } else {
      handler->Delete(key);
    }
  }
  if (found != CountOf(bytes_)) {
    return Corruption("the batch has another number of updates than it says");
  }
  return Status();
}

}  // namespace leveldb
