// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Measures the raw bytes of a compressed stream that does not state their
// number: tables of format version 0 and 1 have such bodies.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "util/bytes/codec.h"

namespace varve {

// Decodes the whole of a body, `step` bytes at a time, and forgets them. Sets
// *raw_bytes to their number. kDamaged if the stream is truncated, is followed
// by other bytes, or has over kMaxRawBytes.
//
// A Stream is a decoder at the beginning of one body:
//   result()               not kDone if nothing can be decoded
//   Next(out, size, made)  decodes up to `size` bytes
//   ended(), complete()    at the end of the stream, and of the body with it
template <typename Stream>
DecodeResult MeasureStream(Stream* stream, size_t step, uint64_t* raw_bytes) {
  const std::unique_ptr<char[]> out =
      std::make_unique_for_overwrite<char[]>(step);
  DecodeResult result = stream->result();
  uint64_t total = 0;
  while (result == DecodeResult::kDone && !stream->ended()) {
    size_t made = 0;
    result = stream->Next(out.get(), step, &made);
    total += made;
    // Without output and without an end, the body is truncated.
    if (result == DecodeResult::kDone && !stream->ended() &&
        (made == 0 || total > kMaxRawBytes)) {
      result = DecodeResult::kDamaged;
    }
  }
  if (result == DecodeResult::kDone &&
      (!stream->complete() || total > kMaxRawBytes)) {
    result = DecodeResult::kDamaged;
  }
  if (result == DecodeResult::kDone) *raw_bytes = total;
  return result;
}

}  // namespace varve
