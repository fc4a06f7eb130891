// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Bytes as text, and back. What prints goes straight to the file, piece by
// piece, however long the bytes are.

#include <cstdio>
#include <string>

#include "varve/slice.h"

namespace varve {

// Turns 0x6162 into ab. False if the text is none of this form.
bool DecodeHex(const Slice& text, std::string* bytes);
void PrintHex(const Slice& bytes, FILE* out);

// As ldb prints: hexadecimal, or the bytes as they are up to the first zero.
void PrintLdb(const Slice& bytes, bool hex, FILE* out);

// For reading: in quotes, with \xHH for what is not printable ASCII, a quote
// or a backslash; or hexadecimal.
void PrintQuoted(const Slice& bytes, bool hex, FILE* out);

bool IsUtf8(const Slice& bytes);
// `"name":"text"`, or `"name_hex":"6162"` if the bytes are not UTF-8 or `hex`
// is set.
void PrintJsonField(const char* name, const Slice& bytes, bool hex, FILE* out);

// Appends the bytes so that they have neither tabs nor line ends: printable
// ASCII stands for itself, a backslash for two, anything else is \xHH.
void AppendEscaped(const Slice& bytes, std::string* text);
// For names that come from a file: a terminal may obey other bytes.
std::string Escaped(const Slice& bytes);
// False if the text is none that AppendEscaped makes.
bool DecodeEscaped(const Slice& text, std::string* bytes);

}  // namespace varve
