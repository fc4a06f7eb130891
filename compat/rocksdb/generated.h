// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// The bodies of functions that the table of functions describes completely:
// those that set and return fields, create objects, or lack a feature. A null
// handle is ignored; then the result is null or 0.

#include <cstddef>
#include <string>
#include <type_traits>

#include "compat/rocksdb/base.h"
#include "compat/rocksdb/options/field.h"
#include "compat/rocksdb/options/log.h"

namespace varve::rocksdb_c {

// Tells an object that one of its fields was set, if it wants to know.
template <typename Object>
void NoteChange(Object* object) {
  if constexpr (requires { object->Changed(); }) object->Changed();
}

// Any value of a flag but 0 is true, and a text that is null is empty.
template <auto kField, typename Object, typename Given>
void SetField(Object* object, Given value) {
  using Value = typename MemberOf<decltype(kField)>::Type;
  if (object == nullptr) return;
  if constexpr (std::is_same_v<Value, std::string>) {
    object->*kField = value == nullptr ? "" : value;
  } else if constexpr (std::is_same_v<Value, unsigned char>) {
    object->*kField = value != 0;
  } else {
    object->*kField = static_cast<Value>(value);
  }
  NoteChange(object);
}

// The same for a field that has no effect, of an object that is not logged when
// a database is opened.
template <auto kField, typename Object, typename Given>
void SetAccepted(Object* object, Given value, const char* name) {
  using Fields = typename MemberOf<decltype(kField)>::Fields;
  SetField<kField>(object, value);
  if (object == nullptr || object->*kField == Fields().*kField) return;
  NoteAccepted(name, ToFieldText(object->*kField));
}

template <typename Object, typename Base, typename Value>
Value GetField(const Object* object, Value Base::*field) {
  return object == nullptr ? Value{} : object->*field;
}

// Returns the characters, which are valid until the field is set.
template <typename Object, typename Base>
const char* GetText(const Object* object, std::string Base::*field,
                    size_t* size) {
  if (size != nullptr) *size = object == nullptr ? 0 : (object->*field).size();
  return object == nullptr ? nullptr : (object->*field).c_str();
}

template <typename Object>
Object* Copy(const Object* object) {
  return object == nullptr ? nullptr : new Object(*object);
}

// Sets `count` results to null or 0. `count` can be a negative int.
template <typename Value, typename Count>
void Clear(Value* values, Count count) {
  if (values == nullptr) return;
  for (Count i = 0; i < count; i++) values[i] = Value{};
}

// Stores the error of a missing feature in each of `count` results. Earlier
// contents are not freed: the array is not expected to be initialized.
void SetErrors(char** errors, size_t count, const char* feature);

}  // namespace varve::rocksdb_c
