/* layout.h – the layout of everything that crosses the boundary, as data: one list for the hash and for the generated TypeScript. */
#ifndef ABI_LAYOUT_H
#define ABI_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct abi_field {
  const char *name, *type; /* type: u8 u32 i32 u64 f32 */
  uint32_t offset, bytes;
} abi_field;

typedef struct abi_struct {
  const char *name;
  uint32_t size, field_count;
  const abi_field *fields;
} abi_struct;

const abi_struct *abi_structs(size_t *ret_count);
/* FNV-1a over names, types, offsets and sizes. */
uint64_t abi_layout_hash(void);

#endif
