// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bytes as text, and back. Print functions write to the file piece by piece, so
// long values need no copy.

#include <cstdio>
#include <string>

#include "varve/slice.h"

namespace varve {

// Decodes 0x6162 to ab. Returns false if the text has another form.
bool DecodeHex(const Slice& text, std::string* bytes);
void PrintHex(const Slice& bytes, FILE* out);

// Prints like ldb: hexadecimal, or the bytes as they are up to the first zero.
void PrintLdb(const Slice& bytes, bool hex, FILE* out);

// Prints for people: in quotes, with \xHH for a quote, a backslash, and bytes
// that are not printable ASCII; or hexadecimal.
void PrintQuoted(const Slice& bytes, bool hex, FILE* out);

bool IsUtf8(const Slice& bytes);
// Prints `"name":"text"`, or `"name_hex":"6162"` if the bytes are not UTF-8 or
// `hex` is set.
void PrintJsonField(const char* name, const Slice& bytes, bool hex, FILE* out);

// Appends the bytes without tabs and newlines. Printable ASCII is unchanged, a
// backslash becomes two, and any other byte becomes \xHH.
void AppendEscaped(const Slice& bytes, std::string* text);
// Escapes names that come from a file, since a terminal may interpret other
// bytes.
std::string Escaped(const Slice& bytes);
// Returns false if AppendEscaped cannot have produced the text.
bool DecodeEscaped(const Slice& text, std::string* bytes);

}  // namespace varve
