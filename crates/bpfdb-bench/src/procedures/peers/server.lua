-- A Tarantool server for comparison: everything in memory, nothing in a log.
--
--   tarantool server.lua FOLDER ADDRESS BYTES
--
-- FOLDER has the applications. Files of the server's own go to the folder it is started in.

local folder, address, bytes = arg[1], arg[2], tonumber(arg[3])

box.cfg{
  memtx_memory = bytes,
  wal_mode = 'none',
  checkpoint_interval = 0,
  -- Requests at a time: 64 connections with 16 each are more than the default of 768.
  net_msg_max = 4096,
  log_level = 'warn',
}

-- A space without what was in it before. Point queries go through hash indexes.
function fresh(name, fields, parts, kind)
  if box.space[name] then
    box.space[name]:drop()
  end
  local space = box.schema.space.create(name, {format = fields})
  space:create_index('primary', {type = kind or 'HASH', parts = parts})
  return space
end

for _, application in ipairs{'voter', 'smallbank', 'tatp'} do
  dofile(folder .. '/' .. application .. '.lua')
end
-- It fills spaces too.
box.schema.user.grant('guest', 'super')
-- Whoever finds it listening finds the procedures too.
box.cfg{listen = address}
