-- Wireshark's dissector of Sovia's wire format, version 2 (docs/reference/wire.md, "Captures"), and of EMP's frames (docs/research/emp.md).
--
--     wireshark -X lua_script:tools/wireshark/sovia.lua
--     tshark    -X lua_script:tools/wireshark/sovia.lua -r capture.pcapng
--
-- The dissector checks a frame in the same order as Sovia's receiver (crates/core/link/src/wire), and gives the same
-- reason for a refused frame. A test compares the two.

local bit = bit or bit32

local sovia = Proto("sovia", "Sovia, VIs between hosts")

local HEADER = 28
local VERSION = 2
local UNCHECKED = 1
local ETHER_TYPE = 0x88b5
local RANGES_MAX = 16
local SPAN = 2 ^ 31
local ADDRESS_PART = 64

local STREAM, ACK, DATAGRAM, GONE, HELLO, PROBE, ECHO = 1, 2, 3, 4, 5, 6, 7
local REQUEST, PENDING, ANSWER, SETTLED, CANCEL, POKE, POKED = 16, 17, 18, 19, 20, 21, 22
local KINDS = {
    [STREAM] = "stream", [ACK] = "ack", [DATAGRAM] = "datagram", [GONE] = "gone", [HELLO] = "hello",
    [PROBE] = "probe", [ECHO] = "echo", [REQUEST] = "request", [PENDING] = "pending",
    [ANSWER] = "answer", [SETTLED] = "settled", [CANCEL] = "cancel", [POKE] = "poke",
    [POKED] = "poked",
}

local FIRST, LATER, ACKNOWLEDGED, REFUSED, NOTED = 48, 49, 50, 51, 52
local NOT_READY, GO, EMP_HELLO, WELCOME, EMP_GONE = 53, 54, 55, 56, 57
for kind, name in pairs({
    [FIRST] = "EMP: first frame of a message", [LATER] = "EMP: later frame of a message",
    [ACKNOWLEDGED] = "EMP: acknowledgement", [REFUSED] = "EMP: refused", [NOTED] = "EMP: noted",
    [NOT_READY] = "EMP: not ready", [GO] = "EMP: go", [EMP_HELLO] = "EMP: hello",
    [WELCOME] = "EMP: welcome", [EMP_GONE] = "EMP: gone",
}) do
    KINDS[kind] = name
end
local WHYS = { [1] = "longer than its receive", [2] = "its sender had been given up" }

local SEND, WRITE, REPLY, READ, CLOSE = 1, 2, 3, 4, 5
local ITEMS = {
    [SEND] = "part of a send", [WRITE] = "part of an RDMA write",
    [REPLY] = "part of the answer to an RDMA read", [READ] = "RDMA read", [CLOSE] = "end",
}
local CLOSINGS = {
    [0] = "disconnected", [1] = "broken", [2] = "no receive", [3] = "bad receive",
    [4] = "RDMA denied",
}
local VERDICTS = {
    [0] = "accepted", [1] = "no match", [2] = "rejected", [3] = "other reliability",
    [4] = "other transfer size",
}
local LEVELS = { [1] = "unreliable", [2] = "reliable delivery", [4] = "reliable reception" }
local CHECKSUMS = { [0] = "bad", [1] = "good", [2] = "not verified", [3] = "none" }
local BAD, GOOD, NOT_VERIFIED, NONE = 0, 1, 2, 3

-- Fields -------------------------------------------------------------------------------------------------------------

local f = {
    version = ProtoField.uint8("sovia.version", "Version"),
    kind = ProtoField.uint8("sovia.kind", "Kind", base.DEC, KINDS),
    flags = ProtoField.uint8("sovia.flags", "Flags", base.HEX),
    unchecked = ProtoField.bool("sovia.flags.unchecked", "There is no checksum", 8, nil, 0x01),
    reserved = ProtoField.bytes("sovia.reserved", "Reserved"),
    length = ProtoField.uint32("sovia.length", "Length of the frame"),
    to = ProtoField.uint64("sovia.to", "For the end", base.HEX),
    from = ProtoField.uint64("sovia.from", "From the end", base.HEX),
    checksum = ProtoField.uint32("sovia.checksum", "CRC-32C", base.HEX),
    checksum_status = ProtoField.uint8("sovia.checksum.status", "Checksum", base.DEC, CHECKSUMS),
    checksum_right = ProtoField.uint32("sovia.checksum.right", "It would be", base.HEX),
    padding = ProtoField.bytes("sovia.padding", "Padding of the medium"),
    malformed = ProtoField.string("sovia.malformed", "Refused"),

    number = ProtoField.uint32("sovia.number", "Number of the item"),
    transmission = ProtoField.uint32("sovia.transmission", "Transmission number"),
    ack = ProtoField.uint32("sovia.ack", "Acknowledgement: the first number not received"),

    item = ProtoField.uint8("sovia.item", "Item", base.DEC, ITEMS),
    item_flags = ProtoField.uint8("sovia.item.flags", "Flags of the part", base.HEX),
    has_immediate = ProtoField.bool(
        "sovia.item.flags.immediate", "There is immediate data", 8, nil, 0x01),
    immediate = ProtoField.uint32("sovia.immediate", "Immediate data", base.HEX),
    total = ProtoField.uint32("sovia.total", "Bytes of the whole message"),
    start = ProtoField.uint32("sovia.start", "Place of the part in it"),
    address = ProtoField.uint64("sovia.address", "Address", base.HEX),
    handle = ProtoField.uint32("sovia.handle", "Memory handle", base.HEX),
    read = ProtoField.uint64("sovia.read", "Number of the RDMA read that it answers"),
    bytes = ProtoField.bytes("sovia.bytes", "Bytes of the part"),
    read_length = ProtoField.uint32("sovia.read.length", "Bytes to be read"),
    code = ProtoField.uint8("sovia.close", "Why the connection is over", base.DEC, CLOSINGS),
    at_fault = ProtoField.uint64("sovia.close.item", "Number of the item at fault"),

    next = ProtoField.uint32("sovia.report.next", "The first number not received"),
    room = ProtoField.uint32("sovia.report.room", "Room"),
    report_flags = ProtoField.uint8("sovia.report.flags", "Flags of the report", base.HEX),
    has_seen = ProtoField.bool(
        "sovia.report.flags.seen", "It says which sending came last", 8, nil, 0x01),
    has_marked = ProtoField.bool(
        "sovia.report.flags.marked", "It counts marks", 8, nil, 0x02),
    count = ProtoField.uint8("sovia.report.ranges", "Ranges"),
    seen_number = ProtoField.uint32("sovia.report.seen.number", "Item that came last"),
    seen_transmission = ProtoField.uint32(
        "sovia.report.seen.transmission", "Transmission that came last"),
    seen_delay = ProtoField.uint32("sovia.report.seen.delay", "Nanoseconds from it to the report"),
    marked = ProtoField.uint32("sovia.report.marked", "Frames that came marked (ECN CE)"),
    range = ProtoField.string("sovia.report.range", "Range"),
    skip = ProtoField.uint32("sovia.report.range.missing", "Items that are missing"),
    held = ProtoField.uint32("sovia.report.range.there", "Items that are there"),

    message = ProtoField.uint64("sovia.message", "Number of the message"),
    nonce = ProtoField.uint64("sovia.nonce", "Nonce", base.HEX),
    zeros = ProtoField.bytes("sovia.probe.padding", "Padding of the probe"),

    level = ProtoField.uint8("sovia.terms.level", "Reliability", base.DEC, LEVELS),
    terms_flags = ProtoField.uint8("sovia.terms.flags", "Flags of the terms", base.HEX),
    rdma_write = ProtoField.bool("sovia.terms.flags.rdma_write", "RDMA writes allowed", 8, nil, 0x01),
    rdma_read = ProtoField.bool("sovia.terms.flags.rdma_read", "RDMA reads allowed", 8, nil, 0x02),
    peer = ProtoField.bool("sovia.terms.flags.peer", "It looks for a peer", 8, nil, 0x04),
    largest = ProtoField.uint32("sovia.terms.largest", "Bytes of the longest message"),
    local_host = ProtoField.bytes("sovia.local.host", "Sender's address: host"),
    local_discriminator = ProtoField.bytes(
        "sovia.local.discriminator", "Sender's address: discriminator"),
    remote_host = ProtoField.bytes("sovia.remote.host", "Receiver's address: host"),
    remote_discriminator = ProtoField.bytes(
        "sovia.remote.discriminator", "Receiver's address: discriminator"),
    part_length = ProtoField.uint8("sovia.address.length", "Length of a part of an address"),
    verdict = ProtoField.uint8("sovia.verdict", "Verdict", base.DEC, VERDICTS),
    connected = ProtoField.uint8("sovia.connected", "The connection has come about"),

    sender = ProtoField.uint16("sovia.emp.sender", "The sender's number"),
    emp_flags = ProtoField.uint8("sovia.emp.flags", "Flags of the message", base.HEX),
    has_ack = ProtoField.bool("sovia.emp.flags.ack", "There is an acknowledgement", 8, nil, 0x01),
    collection = ProtoField.uint8("sovia.emp.collection", "Frames of a collection"),
    id = ProtoField.uint32("sovia.emp.message", "Message"),
    frame = ProtoField.uint32("sovia.emp.frame", "Frame number"),
    emp_total = ProtoField.uint32("sovia.emp.total", "Bytes of the message"),
    frames = ProtoField.uint32("sovia.emp.frames", "Frames of the message"),
    size = ProtoField.uint16("sovia.emp.size", "Bytes of each frame but the last"),
    after = ProtoField.uint16("sovia.emp.after", "Messages back to the last one with its tag"),
    tag = ProtoField.uint32("sovia.emp.tag", "Tag"),
    emp_bytes = ProtoField.bytes("sovia.emp.bytes", "Bytes of the message"),
    ack_id = ProtoField.uint32("sovia.emp.ack.message", "Acknowledged message"),
    ack_frame = ProtoField.uint32("sovia.emp.ack.frame", "Its frame that came last"),
    below = ProtoField.uint32("sovia.emp.ack.below", "Its collections before this one have come"),
    done = ProtoField.uint32("sovia.emp.ack.done", "All messages before this one have come"),
    why = ProtoField.uint8("sovia.emp.why", "Why it is refused", base.DEC, WHYS),
    early = ProtoField.uint8("sovia.emp.early", "One before it has not come"),
    you = ProtoField.uint16("sovia.emp.you", "The receiver's number"),
    first = ProtoField.uint32("sovia.emp.first", "The first message that may still come"),
    emp_nonce = ProtoField.uint64("sovia.emp.nonce", "Nonce", base.HEX),
    key = ProtoField.uint64("sovia.emp.key", "The receiver's key", base.HEX),
    own_key = ProtoField.uint64("sovia.emp.own_key", "The sender's key", base.HEX),
    name = ProtoField.uint64("sovia.emp.name", "The station that is gone", base.HEX),
}
do
    local all = {}
    for _, field in pairs(f) do
        all[#all + 1] = field
    end
    sovia.fields = all
end

local is_malformed = ProtoExpert.new(
    "sovia.malformed.expert", "A receiver refuses this frame", expert.group.MALFORMED,
    expert.severity.ERROR)
local is_damaged = ProtoExpert.new(
    "sovia.checksum.bad", "The checksum does not match", expert.group.CHECKSUM, expert.severity.ERROR)
local is_unchecked = ProtoExpert.new(
    "sovia.checksum.none", "No checksum: for links that have one of their own",
    expert.group.CHECKSUM, expert.severity.NOTE)
local is_cut = ProtoExpert.new(
    "sovia.captured.short", "The capture has not the whole frame", expert.group.UNDECODED,
    expert.severity.NOTE)
sovia.experts = { is_malformed, is_damaged, is_unchecked, is_cut }

sovia.prefs.ports = Pref.range(
    "UDP ports", "", "UDP ports whose datagrams are frames; others are recognized by their checksum", 65535)
sovia.prefs.verify = Pref.bool("Verify checksums", true, "Whether CRC-32C is computed")
sovia.prefs.require = Pref.bool(
    "Require checksums", false, "Refuse frames without a checksum, as on a link that has none of its own")

-- CRC-32C ------------------------------------------------------------------------------------------------------------

-- Tables for four bytes at a time: T[k][b] is the remainder of byte b with k zeros behind it.
local T = { {}, {}, {}, {} }
for b = 0, 255 do
    local rest = b
    for _ = 1, 8 do
        local low = bit.band(rest, 1)
        rest = bit.rshift(rest, 1)
        if low == 1 then
            rest = bit.bxor(rest, 0x82f63b78)
        end
    end
    T[1][b] = rest
end
for k = 2, 4 do
    for b = 0, 255 do
        local before = T[k - 1][b]
        T[k][b] = bit.bxor(bit.rshift(before, 8), T[1][bit.band(before, 255)])
    end
end

local function crc_add(crc, text)
    local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
    local T1, T2, T3, T4 = T[1], T[2], T[3], T[4]
    local whole = #text - #text % 4
    for i = 1, whole, 4 do
        local b1, b2, b3, b4 = text:byte(i, i + 3)
        local a = band(bxor(crc, b1), 255)
        local b = band(bxor(rshift(crc, 8), b2), 255)
        local c = band(bxor(rshift(crc, 16), b3), 255)
        local d = band(bxor(rshift(crc, 24), b4), 255)
        crc = bxor(T4[a], T3[b], T2[c], T1[d])
    end
    for i = whole + 1, #text do
        crc = bxor(rshift(crc, 8), T1[band(bxor(crc, text:byte(i)), 255)])
    end
    return crc
end

-- The checksum that the first `length` bytes should have.
local function checksum(tvb, length)
    local crc = crc_add(0xffffffff, tvb:raw(0, 24))
    crc = crc_add(crc, "\0\0\0\0")
    if length > HEADER then
        crc = crc_add(crc, tvb:raw(HEADER, length - HEADER))
    end
    return bit.bnot(crc) % 2 ^ 32
end

-- Reading a body -----------------------------------------------------------------------------------------------------

local SHORT = "the frame is cut short"

-- Ends the dissection of a frame that a receiver refuses; `dissect_frame` catches it.
local function refuse(reason)
    error({ reason = reason }, 0)
end

local function illegal(field)
    refuse("the frame's field `" .. field .. "` has an illegal value")
end

-- Reads the bytes before `finish` from the front.
local Reader = {}
Reader.__index = Reader

function Reader.new(tvb, at, finish)
    return setmetatable({ tvb = tvb, at = at, finish = finish }, Reader)
end

function Reader:take(count)
    if self.at + count > self.finish then
        refuse(SHORT)
    end
    if self.at + count > self.tvb:captured_len() then
        error({ is_cut = true }, 0)
    end
    local range = self.tvb:range(self.at, count)
    self.at = self.at + count
    return range
end

function Reader:left()
    return self.finish - self.at
end

-- Adds the next field of one to four bytes to the tree; returns its value and its line in the tree.
function Reader:uint(tree, field, count)
    local range = self:take(count)
    return range:uint(), tree:add(field, range)
end

-- Like `uint`, for eight bytes; the value is a UInt64.
function Reader:uint64(tree, field)
    local range = self:take(8)
    return range:uint64(), tree:add(field, range)
end

function Reader:zeros(tree, count)
    local range = self:take(count)
    for i = 0, count - 1 do
        if range(i, 1):uint() ~= 0 then
            tree:add(f.reserved, range)
            illegal("reserved")
        end
    end
end

-- All that is left, which may be nothing.
function Reader:rest(tree, field)
    local count = self:left()
    if count == 0 then
        return 0
    end
    local captured = math.min(count, self.tvb:captured_len() - self.at)
    if captured > 0 then
        tree:add(field, self.tvb:range(self.at, captured))
    end
    self.at = self.finish
    return count
end

local function hex(value)
    return "0x" .. value:tohex():gsub("^0+(%x)", "%1")
end

-- The number modulo 2^32 that is `steps` behind another one.
local function behind(number, steps)
    return (number + steps) % 2 ^ 32
end

local function interval(first, count)
    if count == 1 then
        return string.format("%d", first)
    end
    return string.format("%d..%d", first, behind(first, count - 1))
end

-- Bodies: each returns what the info column says -----------------------------------------------------------------------

local function part(reader, tree, tag)
    local flags, line = reader:uint(tree, f.item_flags, 1)
    line:add(f.has_immediate, reader.tvb:range(reader.at - 1, 1))
    reader:zeros(tree, 2)
    local immediate = reader:take(4)
    if flags == 1 then
        tree:add(f.immediate, immediate)
    elseif flags ~= 0 or immediate:uint() ~= 0 then
        illegal("immediate data")
    end
    local total = reader:uint(tree, f.total, 4)
    local start = reader:uint(tree, f.start, 4)
    local what, where = "part", ""
    if tag == WRITE then
        local address = reader:uint64(tree, f.address)
        reader:uint(tree, f.handle, 4)
        what, where = "write", " at " .. hex(address)
    elseif tag == REPLY then
        local read = reader:uint64(tree, f.read)
        what, where = "reply", " to read " .. tostring(read)
    elseif tag ~= SEND then
        illegal("item")
    end
    local length = reader:rest(tree, f.bytes)
    if start + length > total or (length == 0 and total > 0) then
        illegal("offset in the message")
    end
    local said = string.format("%s %d..%d of %d%s", what, start, start + length, total, where)
    if flags == 1 then
        said = said .. string.format(" immediate 0x%08x", immediate:uint())
    end
    return said
end

local function item(reader, tree)
    local tag = reader:uint(tree, f.item, 1)
    if tag == SEND or tag == WRITE or tag == REPLY then
        return part(reader, tree, tag)
    elseif tag == READ then
        reader:zeros(tree, 3)
        local address = reader:uint64(tree, f.address)
        reader:uint(tree, f.handle, 4)
        local length = reader:uint(tree, f.read_length, 4)
        return string.format("read %d at %s", length, hex(address))
    elseif tag == CLOSE then
        local code = reader:uint(tree, f.code, 1)
        reader:zeros(tree, 2)
        local number = reader:uint64(tree, f.at_fault)
        if CLOSINGS[code] == nil or (code < 2 and number ~= UInt64(0)) then
            illegal("reason of the end")
        end
        local said = "end: " .. CLOSINGS[code]
        return code < 2 and said or said .. " for item " .. tostring(number)
    end
    illegal("item")
end

local function stream(reader, tree)
    local number = reader:uint(tree, f.number, 4)
    local transmission = reader:uint(tree, f.transmission, 4)
    local ack = reader:uint(tree, f.ack, 4)
    return string.format("stream #%d t%d ack %d ", number, transmission, ack) .. item(reader, tree)
end

local function ranges(reader, tree, next, count)
    local reach, said = 0, {}
    for n = 1, count do
        local whole = reader:take(math.min(8, math.max(reader:left(), 1)))
        if whole:len() < 8 then
            refuse(SHORT)
        end
        local skip, length = whole(0, 4):uint(), whole(4, 4):uint()
        local first = behind(next, reach + skip)
        local text = "nothing is there"
        if length > 0 then
            said[n] = interval(first, length)
            text = "there: " .. said[n]
        end
        if skip > 0 then
            text = "missing: " .. interval(behind(first, -skip), skip) .. ", " .. text
        end
        local line = tree:add(f.range, whole, text)
        line:add(f.skip, whole(0, 4))
        line:add(f.held, whole(4, 4))
        reach = reach + skip + length
        if length == 0 or (skip == 0 and n > 1) or reach >= SPAN or n > RANGES_MAX then
            illegal("ranges")
        end
    end
    return table.concat(said, ", ")
end

local function report(reader, tree)
    local next = reader:uint(tree, f.next, 4)
    local room = reader:uint(tree, f.room, 4)
    if room > SPAN then
        illegal("room")
    end
    local flags, line = reader:uint(tree, f.report_flags, 1)
    line:add(f.has_seen, reader.tvb:range(reader.at - 1, 1))
    line:add(f.has_marked, reader.tvb:range(reader.at - 1, 1))
    local count = reader:uint(tree, f.count, 1)
    reader:zeros(tree, 2)
    if flags > 3 then
        illegal("flags of the acknowledgement")
    end
    local said = string.format("ack %d room %d", next, room)
    if bit.band(flags, 1) ~= 0 then
        local number = reader:uint(tree, f.seen_number, 4)
        local transmission = reader:uint(tree, f.seen_transmission, 4)
        local delay = reader:uint(tree, f.seen_delay, 4)
        said = said .. string.format(" seen #%d t%d %d ns ago", number, transmission, delay)
    end
    if bit.band(flags, 2) ~= 0 then
        said = said .. string.format(" marked %d", (reader:uint(tree, f.marked, 4)))
    end
    if count > 0 then
        said = said .. " there " .. ranges(reader, tree, next, count)
    end
    return said
end

local function datagram(reader, tree)
    local message = reader:uint64(tree, f.message)
    local tag = reader:uint(tree, f.item, 1)
    return "datagram #" .. tostring(message) .. " " .. part(reader, tree, tag)
end

local function probe(reader, tree)
    local nonce = reader:uint64(tree, f.nonce)
    local at = reader.at
    local length = reader:rest(tree, f.zeros)
    local captured = math.min(length, reader.tvb:captured_len() - at)
    if captured > 0 and reader.tvb:raw(at, captured):find("[^\0]") then
        illegal("padding")
    end
    return string.format("probe %s padded by %d", hex(nonce), length)
end

local function terms(reader, tree, is_answer)
    local level = reader:uint(tree, f.level, 1)
    local flags, line = reader:uint(tree, f.terms_flags, 1)
    local range = reader.tvb:range(reader.at - 1, 1)
    line:add(f.rdma_write, range)
    line:add(f.rdma_read, range)
    line:add(f.peer, range)
    reader:zeros(tree, 2)
    if LEVELS[level] == nil then
        illegal("reliability level")
    end
    if flags > 7 then
        illegal("flags of the terms")
    end
    local largest = reader:uint(tree, f.largest, 4)
    if is_answer and flags > 3 then
        illegal("flags of the terms")
    end
    return string.format("%s, messages up to %d", LEVELS[level], largest)
end

-- Bytes of an address as text, if they are that, else in hexadecimal.
local function readable(range)
    local text = range:raw()
    if text:find("^[%w%p ]+$") then
        return text
    end
    return tostring(range:bytes()):lower()
end

local function address(reader, tree, host_field, discriminator_field)
    local host = reader:uint(tree, f.part_length, 1)
    local discriminator = reader:uint(tree, f.part_length, 1)
    if math.max(host, discriminator) > ADDRESS_PART then
        illegal("length of an address")
    end
    local parts = {}
    for n, wanted in ipairs({ { host, host_field }, { discriminator, discriminator_field } }) do
        parts[n] = ""
        if wanted[1] > 0 then
            local range = reader:take(wanted[1])
            tree:add(wanted[2], range)
            parts[n] = readable(range)
        end
    end
    return parts[1] .. "/" .. parts[2]
end

local function addresses(reader, tree)
    local own = address(reader, tree, f.local_host, f.local_discriminator)
    return own, address(reader, tree, f.remote_host, f.remote_discriminator)
end

local function is_none(range)
    return range:uint64() == UInt64(0)
end

-- Dissects a frame that sets up a connection. `to` and `from` are the header's ranges.
local function meeting(kind, reader, tree, to, from)
    local said, legal
    if kind == REQUEST then
        local asked = terms(reader, tree, false)
        local own, remote = addresses(reader, tree)
        said = string.format("request from %s to %s: %s", own, remote, asked)
        legal = is_none(to)
    elseif kind == PENDING then
        said, legal = "pending", is_none(from)
    elseif kind == ANSWER then
        local verdict = reader:uint(tree, f.verdict, 1)
        reader:zeros(tree, 3)
        if verdict == 0 then
            said, legal = "answer: accepted, " .. terms(reader, tree, true), true
        elseif VERDICTS[verdict] == nil then
            illegal("answer")
        else
            said, legal = "answer: " .. VERDICTS[verdict], is_none(from)
        end
    elseif kind == SETTLED then
        local connected = reader:uint(tree, f.connected, 1)
        if connected > 1 then
            illegal("connected flag")
        end
        said = connected == 1 and "settled: connected" or "settled: not connected"
        legal = is_none(to)
    elseif kind == CANCEL then
        said, legal = "cancel", is_none(to)
    else
        local own, remote = addresses(reader, tree)
        said = string.format("%s from %s to %s", KINDS[kind], own, remote)
        legal = is_none(to) and is_none(from)
    end
    if not legal then
        illegal("ends")
    end
    return said
end

-- EMP's frames ---------------------------------------------------------------------------------------------------------

local function emp_ack(reader, tree)
    local id = reader:uint(tree, f.ack_id, 4)
    local frame = reader:uint(tree, f.ack_frame, 4)
    local below = reader:uint(tree, f.below, 4)
    local done = reader:uint(tree, f.done, 4)
    local all = below == 0xffffffff and "whole" or string.format("collections before %d", below)
    return string.format("ack #%d frame %d %s messages before %d", id, frame, all, done)
end

local function emp_message(reader, tree, collection)
    local total = reader:uint(tree, f.emp_total, 4)
    local frames = reader:uint(tree, f.frames, 4)
    local size = reader:uint(tree, f.size, 2)
    local after = reader:uint(tree, f.after, 2)
    local tag = reader:uint(tree, f.tag, 4)
    if size == 0 or frames ~= math.max(math.ceil(total / size), 1) then
        illegal("number of frames")
    end
    local said = string.format(" tag %d %d bytes in %d frames", tag, total, frames)
    if after > 0 then
        said = said .. string.format(" after #-%d", after)
    end
    return said, math.min(total, size)
end

local function emp_data(kind, reader, tree)
    reader:uint(tree, f.sender, 2)
    local flags, line = reader:uint(tree, f.emp_flags, 1)
    line:add(f.has_ack, reader.tvb:range(reader.at - 1, 1))
    local collection = reader:uint(tree, f.collection, 1)
    if flags > 1 then
        illegal("flags of the message")
    end
    local id = reader:uint(tree, f.id, 4)
    local number = reader:uint(tree, f.frame, 4)
    local is_first = kind == FIRST
    if (is_first and (collection < 1 or collection > 8)) or (not is_first and collection ~= 0) then
        illegal("frames of a collection")
    end
    if is_first ~= (number == 0) then
        illegal("frame number")
    end
    local ack, message, wanted = "", "", nil
    if flags == 1 then
        ack = " " .. emp_ack(reader, tree)
    end
    if is_first then
        message, wanted = emp_message(reader, tree, collection)
    end
    local length = reader:rest(tree, f.emp_bytes)
    if (is_first and length ~= wanted) or (not is_first and length == 0) then
        illegal("offset in the message")
    end
    return string.format("message #%d frame %d%s%s", id, number, message, ack)
end

local function emp_greeting(reader, tree)
    local you = reader:uint(tree, f.you, 2)
    reader:zeros(tree, 2)
    local first = reader:uint(tree, f.first, 4)
    local nonce = reader:uint64(tree, f.emp_nonce)
    return string.format("you are %d, from #%d on, nonce %s", you, first, hex(nonce))
end

-- A frame about a message: its sender, perhaps a flag, the message or a tag.
local function emp_word(kind, reader, tree)
    reader:uint(tree, f.sender, 2)
    if kind == REFUSED then
        local why = reader:uint(tree, f.why, 1)
        reader:zeros(tree, 1)
        if WHYS[why] == nil then
            illegal("reason of the refusal")
        end
        return string.format("refused #%d: %s", reader:uint(tree, f.id, 4), WHYS[why])
    elseif kind == NOT_READY then
        local early = reader:uint(tree, f.early, 1)
        reader:zeros(tree, 1)
        if early > 1 then
            illegal("early flag")
        end
        local said = string.format("not ready for #%d", (reader:uint(tree, f.id, 4)))
        return early == 1 and said .. ", which is early" or said
    end
    reader:zeros(tree, 2)
    if kind == ACKNOWLEDGED then
        return emp_ack(reader, tree)
    elseif kind == NOTED then
        return string.format("noted #%d", (reader:uint(tree, f.id, 4)))
    end
    return string.format("go tag %d", (reader:uint(tree, f.tag, 4)))
end

local function emp(kind, reader, tree, to, from)
    local said
    if kind == FIRST or kind == LATER then
        said = emp_data(kind, reader, tree)
    elseif kind == EMP_HELLO then
        said = "hello: " .. emp_greeting(reader, tree)
        reader:uint64(tree, f.key)
        reader:uint64(tree, f.own_key)
    elseif kind == WELCOME then
        said = "welcome: " .. emp_greeting(reader, tree)
    elseif kind == EMP_GONE then
        said = "gone: " .. hex((reader:uint64(tree, f.name)))
    else
        said = emp_word(kind, reader, tree)
    end
    if reader:left() > 0 then
        refuse("the frame is longer than its kind allows")
    end
    if (kind ~= EMP_HELLO and is_none(to)) or is_none(from) ~= (kind == EMP_GONE) then
        illegal("ends")
    end
    return "EMP " .. said
end

local function body(kind, reader, tree, to, from)
    if kind >= FIRST and kind <= EMP_GONE then
        return emp(kind, reader, tree, to, from)
    elseif kind == STREAM then
        return stream(reader, tree)
    elseif kind == ACK then
        return report(reader, tree)
    elseif kind == DATAGRAM then
        return datagram(reader, tree)
    elseif kind == GONE then
        if not is_none(from) then
            illegal("ends")
        end
        return "gone"
    elseif kind == HELLO then
        return "hello from " .. hex(from:uint64()) .. " to " .. hex(to:uint64())
    elseif kind == PROBE then
        return probe(reader, tree)
    elseif kind == ECHO then
        return "echo " .. hex((reader:uint64(tree, f.nonce)))
    elseif KINDS[kind] then
        return meeting(kind, reader, tree, to, from)
    end
    refuse(string.format("the frame's kind %d is unknown", kind))
end

-- Frames ---------------------------------------------------------------------------------------------------------------

-- Adds the checksum's line. Refuses a frame whose checksum does not match.
local function verify(tvb, tree, length, flags)
    local range = tvb:range(24, 4)
    local line = tree:add(f.checksum, range)
    local function status(value)
        line:add(f.checksum_status, range, value):set_generated()
    end
    if flags == UNCHECKED then
        if sovia.prefs.require then
            status(NONE)
            refuse("the frame has no checksum, and this link requires one")
        elseif range:uint() ~= 0 then
            status(BAD)
            line:add_proto_expert_info(is_damaged)
            refuse("the frame's checksum does not match")
        end
        status(NONE)
        line:add_proto_expert_info(is_unchecked)
    elseif length > tvb:captured_len() or not sovia.prefs.verify then
        status(NOT_VERIFIED)
    else
        local right = checksum(tvb, length)
        if right ~= range:uint() then
            status(BAD)
            line:add(f.checksum_right, range, right):set_generated()
            line:add_proto_expert_info(is_damaged)
            refuse("the frame's checksum does not match")
        end
        status(GOOD)
    end
    if flags > UNCHECKED then
        illegal("flags")
    end
end

-- A frame at the beginning of `tvb`; returns what the info column says.
local function header_and_body(tvb, tree)
    if tvb:reported_len() < HEADER then
        refuse(SHORT)
    end
    local reader = Reader.new(tvb, 0, HEADER)
    local version = reader:uint(tree, f.version, 1)
    if version ~= VERSION then
        refuse(string.format("the frame's version %d is unknown", version))
    end
    local kind = reader:uint(tree, f.kind, 1)
    local flags, line = reader:uint(tree, f.flags, 1)
    line:add(f.unchecked, tvb:range(2, 1))
    local reserved = reader:take(1)
    local length = reader:uint(tree, f.length, 4)
    local to, from = reader:take(8), reader:take(8)
    tree:add(f.to, to)
    tree:add(f.from, from)
    if length < HEADER or length > tvb:reported_len() then
        refuse(SHORT)
    end
    verify(tvb, tree, length, flags)
    if reserved:uint() ~= 0 then
        tree:add(f.reserved, reserved)
        illegal("reserved")
    end
    reader = Reader.new(tvb, HEADER, length)
    local said = body(kind, reader, tree, to, from)
    if reader:left() > 0 then
        refuse("the frame is longer than its kind allows")
    end
    return said
end

-- Whether the bytes can be a frame, by all of the header but the checksum.
local function looks_like_frame(tvb)
    if tvb:captured_len() < HEADER or tvb(0, 1):uint() ~= VERSION or KINDS[tvb(1, 1):uint()] == nil then
        return false
    end
    local length = tvb(4, 4):uint()
    return tvb(2, 1):uint() <= UNCHECKED and tvb(3, 1):uint() == 0
        and length >= HEADER and length <= tvb:reported_len()
end

-- Dissects one frame. Returns the frame's length, as far as it is known, and the text for the info
-- column.
local function dissect_frame(tvb, root)
    local length = tvb:reported_len()
    if tvb:captured_len() >= HEADER then
        local says = tvb(4, 4):uint()
        if says >= HEADER and says <= length then
            length = says
        end
    end
    local tree = root:add(sovia, tvb:range(0, math.min(length, tvb:captured_len())))
    local done, said = pcall(header_and_body, tvb, tree)
    if not done then
        if type(said) ~= "table" then
            error(said, 0)
        elseif said.is_cut then
            tree:add_proto_expert_info(is_cut)
            said = "(not captured whole)"
        else
            tree:add(f.malformed, said.reason):set_generated()
            tree:add_proto_expert_info(is_malformed, said.reason)
            said = "REFUSED: " .. said.reason
        end
    end
    tree:append_text(", " .. said)
    return length, said, tree
end

-- Returns the start of the next frame behind padding of zeros, or `at` if there is none. Frames are padded to the
-- length of their neighbours.
local function after_padding(tvb, tree, at)
    local next, ends = at, tvb:captured_len()
    while next < ends and tvb(next, 1):uint() == 0 do
        next = next + 1
    end
    if next > at and next < ends and looks_like_frame(tvb(next):tvb()) then
        tree:add(f.padding, tvb(at, next - at))
        return next
    end
    return at
end

-- If a device cuts segments, a capture on the sender's side has many frames in one datagram.
function sovia.dissector(tvb, pinfo, root)
    if tvb:captured_len() == 0 then
        return 0
    end
    pinfo.cols.protocol = "Sovia"
    local infos, at, tree = {}, 0, nil
    repeat
        local length, said
        length, said, tree = dissect_frame(at == 0 and tvb or tvb(at):tvb(), root)
        infos[#infos + 1] = said
        at = after_padding(tvb, tree, at + length)
    until at >= tvb:captured_len() or not looks_like_frame(tvb(at):tvb())
    if at < tvb:captured_len() then
        tree:add(f.padding, tvb(at))
    end
    pinfo.cols.info = table.concat(infos, " | ")
    return tvb:captured_len()
end

-- Finds frames in UDP datagrams on any port. The first one must be a whole frame with a correct checksum, or without
-- one and with zeros in the checksum's field. Then all other datagrams of the conversation count as frames, so that
-- corrupt ones are shown.
local function heuristic(tvb, pinfo, root)
    if not looks_like_frame(tvb) then
        return false
    end
    local length, sum = tvb(4, 4):uint(), tvb(24, 4):uint()
    if tvb(2, 1):uint() == UNCHECKED then
        if sum ~= 0 then
            return false
        end
    elseif length > tvb:captured_len() or checksum(tvb, length) ~= sum then
        return false
    end
    pinfo.conversation = sovia
    sovia.dissector(tvb, pinfo, root)
    return true
end

sovia:register_heuristic("udp", heuristic)
local udp = DissectorTable.get("udp.port")
udp:add_for_decode_as(sovia)
DissectorTable.get("ethertype"):add(ETHER_TYPE, sovia)

local registered = ""
function sovia.prefs_changed()
    if registered ~= "" then
        udp:remove(registered, sovia)
    end
    registered = sovia.prefs.ports
    if registered ~= "" then
        udp:add(registered, sovia)
    end
end
