/*
 * A plugin for QEMU's user mode (its interface: include/qemu/qemu-plugin.h, version 1) that counts what the first thread executes
 * between two marks: instructions, blocks of them that are translated together, and jumps to an address that is looked up,
 * which leave those blocks and so are what emulation takes longest for.
 *
 * A mark is a call of getgroups(2), which Node makes twice for process.getgroups() and never by itself. The counts go to the file that the
 * environment names in COUNTS: a line "address instructions executions indirect" for each block, addresses in hexadecimal.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int flags, void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id,
                                          void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
                                                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;

enum { GETGROUPS = 115, CALLS_PER_MARK = 2 };

struct block {
  uint64_t address;
  uint64_t instructions;
  uint64_t executions;
  bool indirect;
  struct block *next;
};

static struct block *blocks;
static bool counting;
static int calls;

static void executed(unsigned vcpu, void *block) {
  if (counting && vcpu == 0) ((struct block *)block)->executions++;
}

/* Returns, and calls and jumps through a register or memory; see the opcode map of the Intel SDM, volume 2. */
static bool is_indirect(const unsigned char *code) {
  while (*code == 0xf2 || *code == 0xf3 || (*code & 0xf0) == 0x40) code++; /* prefixes */
  if (*code == 0xc2 || *code == 0xc3) return true;
  const unsigned operation = (code[1] >> 3) & 7;
  return *code == 0xff && (operation == 2 || operation == 4);
}

static void translated(plugin_id id, struct qemu_plugin_tb *translation) {
  (void)id;
  struct block *block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  block->address = qemu_plugin_tb_vaddr(translation);
  block->instructions = qemu_plugin_tb_n_insns(translation);
  block->indirect =
      is_indirect(qemu_plugin_insn_data(qemu_plugin_tb_get_insn(translation, block->instructions - 1)));
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_cb(translation, executed, 0, block);
}

static void report(void) {
  FILE *file = fopen(getenv("COUNTS"), "w");
  if (file == NULL) abort();
  for (const struct block *block = blocks; block != NULL; block = block->next)
    if (block->executions > 0)
      fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 " %d\n", block->address, block->instructions,
              block->executions, block->indirect);
  fclose(file);
}

static void called(plugin_id id, unsigned vcpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                   uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)vcpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number != GETGROUPS) return;
  calls++;
  counting = calls == CALLS_PER_MARK;
  if (calls == CALLS_PER_MARK + 1) report();
}

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
  (void)info, (void)count, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
