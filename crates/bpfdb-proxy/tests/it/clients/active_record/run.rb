# What ActiveRecord does with PostgreSQL, through the proxy or without it: run.rb PORT USER NAME.
# NAME is a part of the name of a database. The program ends with a line "active_record ok", or fails.

require "active_record"

PORT, USER, NAME = ARGV[0].to_i, ARGV[1], "rails_#{ARGV[2]}"
WORKERS = 8
ROUNDS = 10

ActiveRecord::Base.logger = nil
ActiveRecord::Migration.verbose = false

class Account < ActiveRecord::Base
  has_many :entries, dependent: :delete_all
  validates :owner, presence: true
end

class Entry < ActiveRecord::Base
  belongs_to :account
end

class MakeAccounts < ActiveRecord::Migration[6.1]
  def change
    create_table :accounts do |t|
      t.string :owner, null: false, index: { unique: true }
      t.integer :balance, null: false, default: 100
      t.jsonb :details, null: false, default: {}
      t.timestamps
    end
    create_table :entries do |t|
      t.references :account, null: false, foreign_key: true
      t.integer :amount, null: false
    end
  end
end

class MakeIndex < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def change
    add_index :entries, :amount, algorithm: :concurrently
  end
end

def same(found, wanted)
  raise "#{found.inspect} instead of #{wanted.inspect}" unless found == wanted
end

def fails(kind)
  yield
rescue kind
  nil
else
  raise "no #{kind}"
end

def configuration(database, prepared)
  {
    adapter: "postgresql", host: "127.0.0.1", port: PORT, username: USER, database: database,
    prepared_statements: prepared, pool: WORKERS + 1,
    variables: { statement_timeout: "60s", lock_timeout: "30s" }
  }
end

def execute(text)
  ActiveRecord::Base.establish_connection(configuration("postgres", false))
  ActiveRecord::Base.connection.execute(text)
  ActiveRecord::Base.connection_pool.disconnect!
end

# As `rails db:migrate` does it: by one that holds an advisory lock of its session.
def migrations
  table = ActiveRecord::SchemaMigration
  all = [MakeAccounts.new("MakeAccounts", 1), MakeIndex.new("MakeIndex", 2)]
  ActiveRecord::Migrator.new(:up, all, table).migrate
  ActiveRecord::Migrator.new(:down, all, table, 0).migrate
  ActiveRecord::Migrator.new(:up, all, table).migrate
  same(ActiveRecord::Base.connection.index_exists?(:entries, :amount), true)
  [Account, Entry].each(&:reset_column_information)
end

def objects
  accounts = WORKERS.times.map { |n| Account.create!(owner: "owner #{n}", details: { number: n }) }
  same(Account.find_by!("details @> ?", { number: 3 }.to_json).owner, "owner 3")
  same(Account.where(owner: "owner 3").pluck(:balance), [100])
  same(Account.sum(:balance), 100 * WORKERS)
  Account.insert_all(500.times.map { |n| { owner: "more #{n}", created_at: Time.now, updated_at: Time.now } })
  same(Account.where("owner like ?", "more%").find_each(batch_size: 70).count, 500)
  Account.where("owner like 'more%'").in_batches(of: 200).delete_all
  fails(ActiveRecord::RecordNotUnique) { Account.create!(owner: "owner 0") }
  fails(ActiveRecord::StatementInvalid) { Account.where("nothing = 1").load }
  fails(ActiveRecord::InvalidForeignKey) { Entry.insert({ account_id: 0, amount: 1 }) }
  accounts
end

def transactions(account)
  Account.transaction do
    account.lock!.update!(balance: 1)
    Account.transaction(requires_new: true) do
      account.update!(balance: 2)
      raise ActiveRecord::Rollback
    end
    fails(ActiveRecord::RecordNotUnique) do
      Account.transaction(requires_new: true) { Account.create!(owner: "owner 1") }
    end
  end
  same(Account.find(account.id).balance, 1)
  Account.transaction(isolation: :serializable) do
    same(Account.connection.select_value("show transaction_isolation"), "serializable")
    account.update!(balance: 100)
  end
  same(Account.connection.select_value("show transaction_isolation"), "read committed")
end

def locks
  connection = Account.connection
  same(connection.get_advisory_lock(42), true)
  same(Thread.new { Account.connection_pool.with_connection { |other| other.get_advisory_lock(42) } }.value, false)
  same(Account.count, WORKERS)
  same(connection.release_advisory_lock(42), true)
end

# What each session begins with holds on whatever server there is.
def settings(connection)
  same(connection.select_value("show client_min_messages"), "warning")
  same(connection.select_value("show statement_timeout"), "1min")
  same(connection.select_value("show lock_timeout"), "30s")
  same(connection.select_value("show intervalstyle"), "iso_8601")
end

# As many threads as connections, all of which are open at once: more than there are servers.
def requests
  waiting = Queue.new
  threads = WORKERS.times.map do |worker|
    Thread.new do
      Account.connection_pool.with_connection do |connection|
        waiting.pop
        ROUNDS.times do |round|
          settings(connection)
          account = Account.find_by!(owner: "owner #{(worker + round) % WORKERS}")
          Account.transaction do
            account.lock!
            account.entries.create!(amount: 1)
            account.update!(balance: account.balance + 1)
          end
        end
        raise "a connection is not active" unless connection.active?
      end
    end
  end
  WORKERS.times { waiting << true }
  threads.each(&:join)
  same(Account.sum(:balance), WORKERS * (100 + ROUNDS))
  same(Entry.sum(:amount), WORKERS * ROUNDS)
  same(Account.includes(:entries).map { |account| account.entries.size }.sum, WORKERS * ROUNDS)
end

execute("drop database if exists #{NAME} with (force)")
[true, false].each do |prepared|
  execute("create database #{NAME}")
  ActiveRecord::Base.establish_connection(configuration(NAME, prepared))
  migrations
  first = objects.first
  transactions(first)
  locks
  # Those that hold a lock, or have held one, are let go.
  ActiveRecord::Base.connection_pool.disconnect!
  requests
  ActiveRecord::Base.connection_pool.disconnect!
  execute("drop database #{NAME} with (force)")
end
puts "active_record ok"
