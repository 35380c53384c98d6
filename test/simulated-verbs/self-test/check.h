// The smallest test harness that says what failed and where.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

#define CHECK_EQUAL(left, right)                                                          \
  do {                                                                                    \
    const auto left_value = (left);                                                       \
    const auto right_value = (right);                                                     \
    if (!(left_value == right_value)) {                                                   \
      std::fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, #left, \
                   static_cast<long long>(left_value), #right, static_cast<long long>(right_value)); \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

struct test_case {
  const char* name;
  void (*run)();
};

/// The cases of one file, ended by a case without a name.
extern const test_case connecting_cases[];
extern const test_case message_cases[];
extern const test_case one_sided_cases[];
extern const test_case fault_cases[];
extern const test_case misuse_cases[];

/// Commits the misuse of that name in this process, which should not survive it.
int commit_misuse(const char* name, const char* personality, bool hang);
