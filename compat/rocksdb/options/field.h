// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Names the fields of an options struct, so that they can be printed, set from
// text, and compared with their defaults. The table of functions generates the
// structs and the lists (fields.h).

#include <cstdint>
#include <string>
#include <utility>

namespace varve::rocksdb_c {

// The effect of a field.
enum class FieldKind : uint8_t {
  kUsed,      // The library acts by it.
  kAccepted,  // It changes the speed only, and has no effect.
  kRefused,   // Another value than the default needs a missing feature.
};

// A field of a struct `Fields`. The functions take a pointer to such a struct.
struct Field {
  const char* name;
  FieldKind kind;
  const char* feature;  // That kRefused needs; otherwise null.
  std::string (*text)(const void* fields);
  bool (*is_default)(const void* fields);
  // Returns false, and sets nothing, if the text has the wrong form.
  bool (*parse)(void* fields, const std::string& text);
};

// The text forms of values. A number can have a suffix K, M, G or T, and a
// boolean is true, false, or a number. An int is also set by the name of an
// enumerator of RocksDB, such as kLZ4Compression.
std::string ToFieldText(unsigned char value);
std::string ToFieldText(int value);
std::string ToFieldText(unsigned int value);
std::string ToFieldText(long value);           // NOLINT(google-runtime-int)
std::string ToFieldText(unsigned long value);  // NOLINT(google-runtime-int)
std::string ToFieldText(double value);
std::string ToFieldText(const std::string& value);
bool ParseField(const std::string& text, unsigned char* value);
bool ParseField(const std::string& text, int* value);
bool ParseField(const std::string& text, unsigned int* value);
bool ParseField(const std::string& text, long* value);           // NOLINT
bool ParseField(const std::string& text, unsigned long* value);  // NOLINT
bool ParseField(const std::string& text, double* value);
bool ParseField(const std::string& text, std::string* value);

// Takes the type of a struct and of its field from a pointer to the member.
template <typename>
struct MemberOf;
template <typename F, typename T>
struct MemberOf<T F::*> {
  using Fields = F;
  using Type = T;
};

// Returns the field kMember of MemberOf<kMember>::Fields.
template <auto kMember>
constexpr Field FieldOf(const char* name, FieldKind kind,
                        const char* feature = nullptr) {
  using Fields = typename MemberOf<decltype(kMember)>::Fields;
  using Type = typename MemberOf<decltype(kMember)>::Type;
  return {name,
          kind,
          feature,
          [](const void* fields) {
            return ToFieldText(static_cast<const Fields*>(fields)->*kMember);
          },
          [](const void* fields) {
            return static_cast<const Fields*>(fields)->*kMember ==
                   Fields().*kMember;
          },
          [](void* fields, const std::string& text) {
            Type value;
            if (!ParseField(text, &value)) return false;
            static_cast<Fields*>(fields)->*kMember = std::move(value);
            return true;
          }};
}

}  // namespace varve::rocksdb_c
