// The shared segment of a group: one block per member, which only that member writes (except for its doorbell).
//
// NOTE [Posts]. In round n every member writes one post, into the half chosen by n's parity: a header line and,
// for payloads of up to `inline_bytes`, the payload itself. Every line starts with the number of the round,
// stored last (release), so that a reader that sees the number (acquire) sees the rest of that line: no second
// flag, no second cache miss. A half is written again two rounds later; by then every member has posted the
// round between, which it does only after it has finished reading this one.
//
// NOTE [Chunks]. Staged data goes through four slots per member. Chunk numbers never repeat; chunk j lies in
// slot j mod 4. A member writes chunk j only after it has read all members' chunk j-2 or finished the
// operation that chunk belonged to; so the others have written j-2 and therefore read j-4, which lay in the same slot.
// No counter of readers is needed. Chunk 0 of an operation may be written before its post, which announces it;
// `produced` announces the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hvd {

struct alignas(64) Line {
  std::atomic<uint64_t> round;
  uint64_t words[7];
};
static_assert(sizeof(Line) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr size_t header_payload_bytes = 40;  // words 2…6 of the header line
constexpr size_t line_payload_bytes = 56;
constexpr int payload_lines = 18;
constexpr size_t inline_bytes = 1024;
static_assert(header_payload_bytes + payload_lines * line_payload_bytes >= inline_bytes);

// Header line: words[0] fingerprint, words[1] meta (flags below, bytes of the operation above), words[2…6]
// payload, or, where the payload is not inline and there is one buffer, its input and output addresses.
struct Post {
  Line header;
  Line payload[payload_lines];
};
namespace post_flag {
constexpr uint64_t is_inline = 1;    // the payload is in the post
constexpr uint64_t staged = 2;       // chunk 0 is in its slot already
constexpr uint64_t addressed = 4;    // addresses are in the header or the table
constexpr uint64_t all_in_arena = 8; // all of them in arena memory that the others have mapped
constexpr uint64_t can_copy = 16;    // this member may read and write the others' memory
constexpr uint64_t narrows = 32;     // the buffers are float32 and travel as halves
constexpr uint64_t grows = 64;       // some of them are in arena memory that the others have not mapped yet; see NOTE [Reach]
constexpr int cpu_shift = 8;  // 16 bits: the processor the member was on when it posted
constexpr int bits = 24;
}  // namespace post_flag

// NOTE [Reach]. A member maps as much of another one's arena as that one has used, when it is first needed. That may fail
// (a limit of the address space), so it happens between operations: `arena_end` is how far the owner has used its arena, a
// post with post_flag::grows asks the others to map it, and each publishes in `reached` how far it has come. An owner gives
// out offsets only as far as all others have come; beyond that, its memory is copied like any other.

// An address a peer can use: an offset in the member's arena (top bit set) or an address in its memory.
constexpr uint64_t arena_bit = 1ull << 63;
struct TableEntry {
  uint64_t in;
  uint64_t out;
};
constexpr size_t table_entries = 1024;

constexpr int slot_count = 4;
constexpr size_t slot_bytes = 256 * 1024;

constexpr int note_words = 16;
constexpr int max_reached = 1024;  // members whose arenas a member can reach

struct Member {
  Post posts[2];
  alignas(64) std::atomic<uint64_t> produced;  // chunks of this member that may be read
  alignas(64) std::atomic<uint64_t> reduced;   // chunks of which this member has reduced its part
  alignas(64) std::atomic<uint64_t> finished;  // last round whose memory of other members this member no longer touches
  alignas(64) std::atomic<uint32_t> doorbell;  // futex; the others ring it
  std::atomic<uint32_t> asleep;
  alignas(64) int32_t pid;
  int32_t arena_fd;
  uint64_t arena_id;
  uint64_t probe_address;  // holds probe_value: can the others read our memory?
  std::atomic<uint32_t> gone;  // has left the group: nobody writes into its memory any more
  std::atomic<uint64_t> arena_end;
  alignas(64) std::atomic<uint64_t> reached[max_reached];  // bytes of each other member's arena
  alignas(64) std::atomic<uint64_t> notes[note_words];  // see ShmGroup::note()
  alignas(64) TableEntry table[2][table_entries];
  alignas(4096) char slots[slot_count][slot_bytes];
};
static_assert(sizeof(Member) % 4096 == 0);

// From this size on ordinary memory is copied directly from the peer (process_vm_readv) rather than staged:
// below it the system calls cost more than the second copy (measured). With more members each of them copies from
// and to all the others, and staged data is read from the caches. On some processors the direct way is never faster:
// ShmGroup::calibrate() raises the limit there.
constexpr size_t copy_from_bytes(int members) { return members <= 2 ? 192 * 1024 : 2 * 1024 * 1024; }

constexpr uint64_t probe_value = 0x68766470726f6265;

}  // namespace hvd
