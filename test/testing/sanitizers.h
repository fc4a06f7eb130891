// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// VARVE_TEST_SANITIZED: there is an address or thread sanitizer, which makes
// everything slower, and reserves more addresses than there is memory. GCC and
// Clang say so in ways of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VARVE_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VARVE_TEST_SANITIZED 1
#endif
#endif

// VARVE_TEST_THREAD_SANITIZED: the thread sanitizer. Its allocator may stay
// locked in the child of a process whose other threads were allocating.
#if defined(__SANITIZE_THREAD__)
#define VARVE_TEST_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VARVE_TEST_THREAD_SANITIZED 1
#endif
#endif
