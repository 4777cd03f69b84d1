"""runs are archived and deleted with a way back; saved queries"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Columns are added in place: making the table anew would delete the events that hang on its rows.
    op.add_column("run", sa.Column("archived", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("run", sa.Column("deleted", sa.DateTime(), nullable=True))
    op.create_index("ix_run_deleted", "run", ["deleted"], unique=False)
    op.create_table(
        "saved_query",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("sql", sa.String(), nullable=False),
        sa.Column("plot", sa.JSON(), nullable=False),
        sa.Column("created", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_query")),
        sa.UniqueConstraint("name", name=op.f("uq_saved_query_name")),
    )


def downgrade() -> None:
    op.drop_table("saved_query")
    op.drop_index("ix_run_deleted", table_name="run")
    op.drop_column("run", "deleted")
    op.drop_column("run", "archived")
