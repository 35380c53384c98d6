// Runs every case on every personality, or the cases that an argument names. With --misuse it is the child of a case.
#include <cstring>

#include "fixture.h"

int main(int count, char** arguments) {
  if (count == 5 && std::strcmp(arguments[1], "--misuse") == 0) {
    return commit_misuse(arguments[2], arguments[3], std::strcmp(arguments[4], "hang") == 0);
  }
  const test_case* const files[] = {connecting_cases, message_cases, one_sided_cases, fault_cases, misuse_cases};
  int ran = 0;
  for (const char* personality : {"rxe", "siw", "mlx"}) {
    for (const test_case* cases : files) {
      for (; cases->name != nullptr; ++cases) {
        if (count > 1 && std::strcmp(arguments[1], cases->name) != 0) continue;
        if (count > 2 && std::strcmp(arguments[2], personality) != 0) continue;
        CHECK_EQUAL(simverbs_reset(personality), 0);
        cases->run();
        check_nothing_lives();
        std::printf("ok %s: %s\n", personality, cases->name);
        std::fflush(stdout);
        ++ran;
      }
    }
  }
  return ran == 0;
}
