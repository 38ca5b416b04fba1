// What goes over the sockets of a mesh.
//
// NOTE [Protocol]. Between each two members there is one stream. The member that accepted the connection is sent one byte,
// `ready_byte`, and sends nothing before it has come (the other side's Node has let go of its socket by then). After that the
// stream is a sequence of frames: a header of 32 bytes, little-endian, and the bytes it announces.
//   post   one from every member to every other one in every round: the fingerprint of what the member wants, and `bytes`,
//          how much it has (for that member, where parts go to members); with flag::carries the data itself follows,
//          so that a small operation is one step. Rounds are numbered from 1; a post of any other round than the one to come is
//          an error: who has finished a round has had everybody's post of it, and nobody posts twice.
//   data   bytes of an agreed operation, moved by TcpTransport. `number` counts the transport's calls, equal on all members;
//          `detail` is the step within the call.
// A header with another magic, kind, flags, sender, number or length than expected ends the group with EPROTO.
#pragma once

#include <cstdint>

namespace hvd {

enum class FrameKind : uint8_t { post = 1, data = 2 };

namespace flag {
constexpr uint8_t carries = 1;  // `bytes` bytes follow the post; set in all of a member's posts of a round or in none
constexpr uint8_t doubles = 2;  // data of an allreduce in few steps: members that take different ways must not take it for theirs
}  // namespace flag

struct Header {
  uint32_t magic;
  FrameKind kind;
  uint8_t flags;
  uint16_t sender;
  uint64_t number;  // post: round; data: call of the transport
  uint64_t detail;  // post: fingerprint; data: step
  uint64_t bytes;
};
static_assert(sizeof(Header) == 32);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

constexpr uint32_t frame_magic = 0x46445648;  // "HVDF"
constexpr char ready_byte = 'R';

}  // namespace hvd
