// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Merge operators: DB::Merge changes a value without reading it. It writes an
// operand, and reads and compactions apply the operands of a key to its value.
// Set an operator in ColumnFamilyOptions::merge_operator.

#include <memory>
#include <string>
#include <vector>

#include "varve/export.h"
#include "varve/slice.h"

namespace varve {

// Says what operands do to a value. The results must depend on the arguments
// alone. Compactions replace operands by their result, so that their number and
// grouping change: FullMerge(v, {a, b, c}) must equal FullMerge(FullMerge(v,
// {a}), {b, c}).
//
// If a call fails or throws, a read of the key returns Corruption, and a
// compaction keeps the operands as they are and counts the ticker
// kNumberMergeFailures.
//
// Thread-safety: methods are called from many threads at once. The DB holds no
// lock during a call, and does not delay other threads' reads or the freeing of
// memory. Calls may read from the DB, but not write to it.
class VARVE_EXPORT MergeOperator {
 public:
  // A key, its value and the operands for it.
  struct FullMergeInput {
    const Slice& key;
    // Null if the key has no value, or was deleted.
    const Slice* existing_value;
    // Oldest first. Never empty.
    const std::vector<Slice>& operands;
  };

  virtual ~MergeOperator() = default;

  // Stores the value that results from the operands in *new_value, which is
  // empty before. Returns false for a value or operand that the operator cannot
  // use.
  virtual bool FullMerge(const FullMergeInput& input,
                         std::string* new_value) const = 0;

  // Combines two operands, the older one first, to one that has the same
  // effect, in *new_value, which is empty before. Returns false if that is not
  // possible; both are then kept. The default returns false.
  virtual bool PartialMerge(const Slice& key, const Slice& left,
                            const Slice& right, std::string* new_value) const;

  // As PartialMerge, for two or more operands, oldest first. The default calls
  // PartialMerge for one pair after another.
  virtual bool PartialMergeMulti(const Slice& key,
                                 const std::vector<Slice>& operands,
                                 std::string* new_value) const;

  // Returns the name that tables record.
  virtual const char* Name() const = 0;

  // Returns the operator's text in OPTIONS files (docs/option_files.md), in
  // RocksDB's syntax. The default returns the name. An operator with parameters
  // returns "{id=<name>;<parameter>=<value>;}".
  virtual std::string OptionsText() const { return Name(); }
};

// A merge operator whose operands have the form of values, such as the addition
// of numbers.
class VARVE_EXPORT AssociativeMergeOperator : public MergeOperator {
 public:
  // Stores the result of `value` applied to the existing value in *new_value,
  // which is empty before. `existing_value` is null if there is none. Returns
  // false as FullMerge.
  virtual bool Merge(const Slice& key, const Slice* existing_value,
                     const Slice& value, std::string* new_value) const = 0;

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const final;
  bool PartialMerge(const Slice& key, const Slice& left, const Slice& right,
                    std::string* new_value) const final;
};

// Built-in operators. All but BytesOR are RocksDB's too, under the same names,
// so that its programs can read the databases.

// Adds unsigned numbers of 64 bits, stored as 8 bytes, lowest first. Sums wrap
// around. A value or operand of another size counts as 0. "UInt64AddOperator".
VARVE_EXPORT std::shared_ptr<MergeOperator> NewUInt64AddOperator();
// Joins operands, with the delimiter between them. A key without a value begins
// without a delimiter. "StringAppendOperator".
VARVE_EXPORT std::shared_ptr<MergeOperator> NewStringAppendOperator(
    const std::string& delimiter = ",");
// Keeps the largest of the value and the operands, in the order of bytes.
// "MaxOperator".
VARVE_EXPORT std::shared_ptr<MergeOperator> NewMaxOperator();
// Ors bytes at the same place; the longer operand's last bytes stay.
// "BytesOR".
VARVE_EXPORT std::shared_ptr<MergeOperator> NewBytesOrOperator();
// As BytesOR, with an exclusive or. "BytesXOR".
VARVE_EXPORT std::shared_ptr<MergeOperator> NewBytesXorOperator();

// Returns a built-in operator by its name above, or by a short name:
// "uint64add", "stringappend", "max", "bytesor" or "bytesxor". StringAppend
// gets the delimiter ",". Returns null for others.
VARVE_EXPORT std::shared_ptr<MergeOperator> FindMergeOperator(
    const std::string& name);

}  // namespace varve
