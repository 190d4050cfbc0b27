--[[
What a job that takes part is given when it is submitted: for Slurm's job_submit/lua and
cli_filter/lua, which job_submit.lua and cli_filter.lua beside this file load.

A job takes part when its Comment has the word `slurm-resilience` (or `slurm-resilience=<path>`),
as for `slurm-resilience run` and the controller. All other jobs are left as they are. What the user
has said stands. Nothing here refuses a job, and an error in here lets it through as it came.

Written for Lua 5.1 to 5.4.
--]]

local resilience = {}

-- ── what a site may change ──────────────────────────────────────────────────────────────────

-- Notice before the time limit, to the batch shell alone; long enough for one save. bash that neither
-- traps it nor has given its place to `slurm-resilience run` is killed by it.
resilience.SIGNAL = "B:USR2@120"

-- Nodes to avoid: one name a line, where wanted with `until=<Unix seconds>` behind it; `#` begins a
-- comment. Only root may be able to write it, and the folder that it lies in. Absent: none.
resilience.AVOID = "/etc/slurm-resilience/avoid-nodes"

-- ────────────────────────────────────────────────────────────────────────────────────────────

local WORD = "slurm-resilience"
local MOST_BYTES = 65536
local MOST_AVOIDED = 256
-- slurmctld waits for this script: a cluster of more nodes is given no exclusions.
local MOST_NODES = 20000
-- Slurm's largest values stand for "not said" (NO_VAL, INFINITE and their kin).
local UNSAID_16 = 0xfff0
local UNSAID_32 = 0xfffffff0

local function takes_part(comment)
    for word in string.gmatch(comment or "", "%S+") do
        if word == WORD or string.sub(word, 1, #WORD + 1) == WORD .. "=" then
            return true
        end
    end
    return false
end

-- ── host lists: `n[1-3,08],m7`, `r[1-2]n[1-2]` ──────────────────────────────────────────────

local function expand_part(part, names)
    local before, inside, after = string.match(part, "^([^%[%]]*)%[([^%[%]]*)%](.*)$")
    if not before then
        names[#names + 1] = part
        return
    end
    for range in string.gmatch(inside, "[^,]+") do
        local first, last = string.match(range, "^(%d+)%-(%d+)$")
        first = first or string.match(range, "^%d+$")
        if not first then
            error("not a host list: " .. part)
        end
        for number = tonumber(first), tonumber(last or first) do
            if #names > MOST_NODES then
                error("more than " .. MOST_NODES .. " nodes")
            end
            expand_part(before .. string.format("%0" .. #first .. "d", number) .. after, names)
        end
    end
end

-- The names that a host list stands for, as a list.
local function expanded(text)
    local names, depth, start = {}, 0, 1
    text = (text or "") .. ","
    for at = 1, #text do
        local one = string.sub(text, at, at)
        if one == "[" then
            depth = depth + 1
        elseif one == "]" then
            depth = depth - 1
        elseif one == "," and depth == 0 then
            if at > start then
                expand_part(string.sub(text, start, at - 1), names)
            end
            start = at + 1
        end
    end
    return names
end

local function set_of(names)
    local set = {}
    for _, name in ipairs(names) do
        set[name] = true
    end
    return set
end

-- ── nodes to avoid ──────────────────────────────────────────────────────────────────────────

-- Names in the file that are due now, or nil and why it is not used.
local function avoided(path, now)
    local file = io.open(path, "r")
    if not file then
        return {}
    end
    local text = file:read(MOST_BYTES + 1) or ""
    file:close()
    if #text > MOST_BYTES then
        return nil, "larger than " .. MOST_BYTES .. " bytes"
    end
    local names, number = {}, 0
    for line in string.gmatch(text .. "\n", "([^\n]*)\n") do
        number = number + 1
        local said = string.gsub(line, "#.*$", "")
        if string.find(said, "%S") then
            local name, rest = string.match(said, "^%s*(%w[%w._-]*)%s*(.-)%s*$")
            local ends = rest and string.match(rest, "^until=(%d+)$")
            if not name or #name > 64 or (rest ~= "" and not ends) or #(ends or "") > 12 then
                return nil, "line " .. number .. " is not `NODE` or `NODE until=<Unix seconds>`"
            end
            if not ends or tonumber(ends) > now then
                names[#names + 1] = name
            end
        end
    end
    if #names > MOST_AVOIDED then
        return nil, "more than " .. MOST_AVOIDED .. " nodes"
    end
    return names
end

-- The partitions that the job may run in, each as its set of nodes and how many they are.
local function places(job_desc, part_list)
    local asked = {}
    for name in string.gmatch(job_desc.partition or "", "[^,]+") do
        asked[name] = true
    end
    local found = {}
    for name, partition in pairs(part_list) do
        local is_default = partition.flag_default == 1 or partition.flag_default == true
        if asked[name] or (not next(asked) and is_default) then
            local nodes = expanded(partition.nodes)
            found[#found + 1] = { nodes = set_of(nodes), count = #nodes }
        end
    end
    return found
end

local function without(place, name)
    if place.nodes[name] then
        place.nodes[name] = nil
        place.count = place.count - 1
    end
end

-- Whether *name* is a node of some partition that has enough nodes without it too. One that is no
-- node at all (Slurm would refuse the job) is in none.
local function can_do_without(all, name, needed)
    for _, place in ipairs(all) do
        if place.nodes[name] and place.count - 1 >= needed then
            return true
        end
    end
    return false
end

-- Nodes to exclude besides those that the user excludes: of the job's partitions, not asked for by
-- name, and never so many that the job could not be placed, as far as the partition's size tells. Slurm
-- keeps them as the user's own: they stay when their time is over.
local function exclusions(job_desc, part_list, names)
    local all = places(job_desc, part_list)
    local required = set_of(expanded(job_desc.req_nodes))
    for _, name in ipairs(expanded(job_desc.exc_nodes)) do
        for _, place in ipairs(all) do
            without(place, name)
        end
    end
    local needed = tonumber(job_desc.min_nodes) or 1
    if needed >= UNSAID_32 or needed < 1 then
        needed = 1
    end
    local chosen = {}
    for _, name in ipairs(names) do
        if not required[name] and can_do_without(all, name, needed) then
            chosen[#chosen + 1] = name
            for _, place in ipairs(all) do
                without(place, name)
            end
        end
    end
    return chosen
end

-- ── what slurmctld calls ────────────────────────────────────────────────────────────────────

-- Requeue, and nodes to avoid. Slurm lets no job_submit script set an output's mode or a signal:
-- cli_filter.lua does that.
function resilience.submit(slurm, job_desc, part_list)
    if not takes_part(job_desc.comment) or not job_desc.script then
        return
    end
    local requeue = tonumber(job_desc.requeue)
    if requeue == 0 then
        slurm.log_user("slurm-resilience: --no-requeue stands: this job will not be brought back")
    elseif requeue == nil or requeue >= UNSAID_16 then
        job_desc.requeue = 1
    end
    local names, why = avoided(resilience.AVOID, os.time())
    if not names then
        slurm.log_error("%s", "slurm-resilience: " .. resilience.AVOID .. ": " .. why .. "; not used")
        return
    end
    if #names > 0 then
        local chosen = exclusions(job_desc, part_list, names)
        if #chosen > 0 then
            local before = job_desc.exc_nodes
            local list = table.concat(chosen, ",")
            job_desc.exc_nodes = (before and before ~= "") and (before .. "," .. list) or list
            slurm.log_info("%s", "slurm-resilience: a job is submitted without " .. list)
        end
    end
end

-- ── what sbatch calls ───────────────────────────────────────────────────────────────────────

-- Slurm 22.05 shows an option that nobody gave as nil, "" or "unset"; a signal as "0@0".
local function is_unsaid(value)
    return value == nil or value == "" or value == "unset" or string.find(value, "^0@") ~= nil
end

-- Output that is appended to, and a notice before the time limit.
function resilience.pre_submit(_, options)
    if options["type"] ~= "sbatch" or not takes_part(options["comment"]) then
        return
    end
    if is_unsaid(options["open-mode"]) then
        options["open-mode"] = "append"
    end
    if is_unsaid(options["signal"]) then
        options["signal"] = resilience.SIGNAL
    end
end

return resilience
