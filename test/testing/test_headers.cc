// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// A program that exists to have the header compiled.
#include "test/testing/test_headers.h"

int main() { return 0; }
