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
-- comment. Absent: none. A script cannot see whose a file is, nor of what kind: keep the folder and
-- the file root's own, modes 755 and 644.
resilience.AVOID = "/etc/slurm-resilience/avoid-nodes"

-- Partitions in which any node can take the place of any other: the same GPUs, memory and CPUs. A
-- script does not see what a node has, and Slurm refuses a job that asks for what is on the excluded
-- nodes alone; so nodes are avoided in these partitions only: { gpu = true, ["gpu-long"] = true }
resilience.ALIKE = {}

-- ────────────────────────────────────────────────────────────────────────────────────────────

local WORD = "slurm-resilience"
local MOST_BYTES = 65536
local MOST_AVOIDED = 256
-- slurmctld waits for this script: a cluster of more nodes is given no exclusions.
local MOST_NODES = 20000
-- Slurm's largest values stand for "not said" (NO_VAL, INFINITE and their kin).
local UNSAID_16 = 0xfff0
local UNSAID_32 = 0xfffffff0
local NO_SUCH_FILE = 2

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
    local file, unopened, number_of_error = io.open(path, "r")
    if not file then
        return number_of_error == NO_SUCH_FILE and {} or nil, unopened
    end
    -- A folder can be opened, and not be read; an empty file has no text, and no error.
    local text, unread = file:read(MOST_BYTES + 1)
    file:close()
    if unread then
        return nil, path .. ": " .. unread
    end
    text = text or ""
    if #text > MOST_BYTES then
        return nil, path .. ": larger than " .. MOST_BYTES .. " bytes"
    end
    local names, number = {}, 0
    for line in string.gmatch(text .. "\n", "([^\n]*)\n") do
        number = number + 1
        local said = string.gsub(line, "#.*$", "")
        if string.find(said, "%S") then
            local name, rest = string.match(said, "^%s*(%w[%w._-]*)%s*(.-)%s*$")
            local ends = rest and string.match(rest, "^until=(%d+)$")
            if not name or #name > 64 or (rest ~= "" and not ends) or #(ends or "") > 12 then
                return nil, path .. ": line " .. number .. " is not `NODE` or `NODE until=<Unix seconds>`"
            end
            if not ends or tonumber(ends) > now then
                names[#names + 1] = name
            end
        end
    end
    if #names > MOST_AVOIDED then
        return nil, path .. ": more than " .. MOST_AVOIDED .. " nodes"
    end
    return names
end

-- The partitions that the job may run in, each as its set of nodes and how many they are; nil and
-- which of them is not known to be of nodes that are alike.
local function places(job_desc, part_list)
    local asked = {}
    for name in string.gmatch(job_desc.partition or "", "[^,]+") do
        asked[#asked + 1] = name
    end
    if #asked == 0 then
        for name, partition in pairs(part_list) do
            if partition.flag_default == 1 or partition.flag_default == true then
                asked[#asked + 1] = name
            end
        end
    end
    local found = {}
    for _, name in ipairs(asked) do
        if not resilience.ALIKE[name] or not part_list[name] then
            return nil, name
        end
        local nodes = expanded(part_list[name].nodes)
        found[#found + 1] = { nodes = set_of(nodes), count = #nodes }
    end
    return found
end

-- A count of Slurm's, nil where it was not said.
local function said(count)
    count = tonumber(count)
    return count and count >= 1 and count < UNSAID_32 and count or nil
end

-- How many nodes the job can come to need; nil where CPUs or GPUs decide that.
local function most_needed(job_desc)
    local least = said(job_desc.min_nodes) or 1
    if said(job_desc.max_nodes) then
        return math.max(least, said(job_desc.max_nodes))
    end
    local is_spread = (said(job_desc.num_tasks) or 1) > least or (job_desc.tres_per_job or "") ~= ""
    return not is_spread and least or nil
end

-- What binds the job to certain nodes even where all are alike, nil where nothing does.
local function bound_by(job_desc)
    for _, name in ipairs({ "reservation", "features", "batch_features" }) do
        if (job_desc[name] or "") ~= "" then
            return name
        end
    end
    return said(job_desc.contiguous) == 1 and "contiguous" or nil
end

local function without(place, name)
    if place.nodes[name] then
        place.nodes[name] = nil
        place.count = place.count - 1
    end
end

-- Whether *name* is a node of some of these partitions, and each has enough nodes without it too. One
-- that is no node at all (Slurm would refuse the job) is in none.
local function can_do_without(all, name, needed)
    local is_there = false
    for _, place in ipairs(all) do
        if place.nodes[name] then
            is_there = true
            if place.count - 1 < needed then
                return false
            end
        end
    end
    return is_there
end

-- Nodes to exclude besides the user's, beside which Slurm keeps them past `until`: of the job's
-- partitions, not asked for by name, never so many that it cannot be placed. Else none, and maybe why.
local function exclusions(job_desc, part_list, names)
    local binding = bound_by(job_desc)
    if binding then
        return {}, "it asks for " .. binding
    end
    local needed = most_needed(job_desc)
    if not needed then
        return {}, "it does not say --nodes"
    end
    local all, other = places(job_desc, part_list)
    if not all then
        return {}, "partition " .. other .. " is not in ALIKE"
    end
    local required = set_of(expanded(job_desc.req_nodes))
    for _, name in ipairs(expanded(job_desc.exc_nodes)) do
        for _, place in ipairs(all) do
            without(place, name)
        end
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
        slurm.log_error("%s", "slurm-resilience: " .. why .. "; not used")
        return
    end
    if #names > 0 then
        local chosen, why_none = exclusions(job_desc, part_list, names)
        if why_none then
            slurm.log_info("%s", "slurm-resilience: no node is avoided for a job: " .. why_none)
        elseif #chosen > 0 then
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
