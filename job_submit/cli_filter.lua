--[[
Slurm's CliFilterPlugins=lua reads this as cli_filter.lua from the folder of slurm.conf, on every
machine that jobs are submitted from.

A site with a cli_filter.lua of its own puts the lines between the marks into it, and the call into
its slurm_cli_pre_submit.
--]]

-- ── begin ──
local LIBRARY = "/opt/slurm-resilience/share/slurm-resilience/job_submit/slurm_resilience.lua"
local is_loaded, resilience = pcall(dofile, LIBRARY)

local function with_resilience(options)
    local is_done, why = is_loaded, resilience
    if is_loaded then
        is_done, why = pcall(function()
            resilience.pre_submit(slurm, options)
        end)
    end
    if not is_done then
        slurm.log_debug("%s", "slurm-resilience: the job goes on without what is missing: " .. tostring(why))
    end
end
-- ── end ──

function slurm_cli_setup_defaults(options, early_pass)
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
    with_resilience(options)
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    return slurm.SUCCESS
end

return slurm.SUCCESS
