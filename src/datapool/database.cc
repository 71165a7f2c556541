#include "datapool/database.h"

#include <utility>

#include "datapool/postgres/postgres_database.h"
#include "datapool/rocks/rocks_database.h"

namespace ingot::datapool {

std::string LayoutName(int shard, int shards) { return absl::StrCat("shard ", shard, " of ", shards); }

absl::StatusOr<std::unique_ptr<Database>> OpenDatabase(const StoreOptions& options, int shard, const base::Clock& clock,
                                                       rocksdb::Env* env) {
  const std::string layout = LayoutName(shard, options.shards);
  if (options.backend == "postgres") return OpenPostgresDatabase(options.postgres, shard, layout, clock);
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Database> files, RocksDatabase::Open(options, layout, clock, env));
  return files;
}

absl::Status AnotherSchema(const std::string& place, const std::string& schema) {
  return absl::FailedPreconditionError(absl::StrCat(
      place, " was created with schema '", schema, "', but this version of ingot has '", kSchema,
      "' and cannot read any other: open it with the version of ingot that created it, or choose another path"));
}

absl::Status CheckSchema(Database& database, const std::string& place, const std::string& layout, bool read_only) {
  {
    const std::unique_ptr<Database::Reader> reader = database.Read();
    const absl::StatusOr<std::string> schema = reader->Get(kMeta, "schema");
    if (schema.ok()) {
      if (*schema != kSchema) return AnotherSchema(place, *schema);
      INGOT_ASSIGN_OR_RETURN(const std::string stored_layout, reader->Get(kMeta, "layout"));
      if (stored_layout == layout) return absl::OkStatus();
      return absl::FailedPreconditionError(absl::StrCat(place, " was created as ", stored_layout, ", not as ", layout,
                                                        ": set the number of shards that it was created with"));
    }
    if (!absl::IsNotFound(schema.status())) return schema.status();
    bool empty = true;
    INGOT_RETURN_IF_ERROR(reader->Scan(kMeta, "", "", [&](auto, auto) { return empty = false; }));
    if (!empty || read_only) {
      return absl::FailedPreconditionError(
          absl::StrCat(place, " holds a database that is not a pool (schema '", kSchema, "')"));
    }
  }
  const std::unique_ptr<Database::Batch> batch = database.NewBatch();
  batch->Put(kMeta, "schema", kSchema);
  batch->Put(kMeta, "layout", layout);
  return database.Write(*batch);
}

}  // namespace ingot::datapool
