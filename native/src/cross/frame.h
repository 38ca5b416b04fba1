// The frames that the members of a mesh send each other over their sockets.
//
// NOTE [Protocol]. There is one stream between each two members. The member that accepted the connection receives one byte,
// `ready_byte`, and sends nothing before that (by then the other side's Node has released its socket). After that the
// stream is a sequence of frames: a header of 32 bytes, little-endian, and the bytes it announces.
//   post   one from every member to every other one in every round: the fingerprint of what the member wants, and `bytes`,
//          how much it has (for that member, if members get parts); with flag::carries the data itself follows, so that a
//          small operation takes one step. Rounds are numbered from 1. A post of any round but the next one is an error:
//          a member that has finished a round has received all posts of it, and no member posts twice.
//   data   bytes of an agreed operation, moved by TcpTransport. `number` counts its calls, equal on all members;
//          `detail` is the step within the call.
// A header with an unexpected magic, kind, flags, sender, number or length ends the group with EPROTO. Where a connection is
// encrypted, all of this, the ready byte included, travels in records (see sealed-stream.h).
#pragma once

#include <cstdint>

namespace hvd {

enum class FrameKind : uint8_t { post = 1, data = 2 };

namespace flag {
constexpr uint8_t carries = 1;  // `bytes` bytes follow the post; set in all of a member's posts of a round or in none
constexpr uint8_t doubles = 2;  // data of recursive doubling, so that members which disagree about the algorithm notice
}  // namespace flag

struct Header {
  uint32_t magic;
  FrameKind kind;
  uint8_t flags;
  uint16_t sender;
  uint64_t number;  // post: round; data: call of TcpTransport
  uint64_t detail;  // post: fingerprint; data: step
  uint64_t bytes;
};
static_assert(sizeof(Header) == 32);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

constexpr uint32_t frame_magic = 0x46445648;  // "HVDF"
constexpr char ready_byte = 'R';

}  // namespace hvd
